// A device description: what the tile machine takes from devices/<name>.json, validated.
//
// Kernels name roles (a space's place in the flow of tiles, a pipe's job in it); the description says
// which memory and which queue of the device play them. Where two roles are one memory (Hexagon's VTCM
// is staging, left, right and vector at once) a move between them costs nothing and is a view.
//
//   global --load--> staging --feed--> left, right --matrix--> accumulator --drain--> global | vector
//   global --load_vector--> vector --vector--> vector --store--> global
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/dtype.hpp"
#include "inlay/core/status.hpp"

namespace inlay::npu {

enum class Space : std::uint8_t { global, staging, left, right, accumulator, vector };
enum class Pipe : std::uint8_t { scalar, load, load_vector, feed, matrix, vector, drain, store };
inline constexpr int spaces = 6;
inline constexpr int pipes = 8;

std::string_view name(Space space);
std::string_view name(Pipe pipe);

// Operations of the vector unit that have a cost of their own.
enum class VectorOp : std::uint8_t {
  add,
  sub,
  mul,
  div,
  max,
  min,
  exp,
  rsqrt,
  recip,
  reduce_sum,
  reduce_max,
  broadcast_row,
  cast,
  select,
  unpack4,
  shuffle,
  fill,
  log,
  sqrt,
  tanh,
  erf,
  abs,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  reduce_min,
  argmax,
  column_sum,  // over the rows of each column
  column_max,
  compare,
  iota,
  gather,
  sort,
  grouped,  // arithmetic whose second operand has one element for a group of columns
  pack4,
  transpose,
  pack_nz
};
inline constexpr int vector_ops = 39;
std::string_view name(VectorOp op);

// One physical memory of a core, or the global memory (index 0, shared by all cores).
struct Memory {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t align = 1;    // bytes: of every allocation, and of every row of a transfer
  std::uint32_t granule = 1;  // of every run of a copy by axes
};

// One physical in-order queue of a core.
struct Queue {
  std::string name;
  double issue_cycles = 1;   // the scalar unit's cost of putting one instruction into it
  std::uint32_t depth = 32;  // instructions that wait in it; the scalar unit stalls on a full one
  // An entry sees the effects of its predecessors in this queue without a barrier. Ascend's vector pipe:
  // no (dependent instructions need PipeBarrier<PIPE_V>); an accumulating matrix unit or an interlocked
  // vector unit: yes; a DMA queue: no. The scalar queue is always so.
  bool in_order_visible = false;
  // Transfers that may be under way: with more than one, the next one's latency passes while the bytes of the
  // first still move. Bytes of one queue move one transfer after the other.
  std::uint32_t outstanding = 1;
};

// What a move costs that also changes the layout of its elements.
struct Relayout {
  bool legal = true;
  double bytes_per_cycle = 0;       // peak while it does; 0: the path's own
  double run_cycles = 0;            // for each contiguous run of the nd side
  double pass_bytes_per_cycle = 0;  // of a second pass over the bytes, once they are there; 0: there is none
};

// A scalar stream of a core, or `count` equal ones, with the queues that it issues into and the memories that
// these reach. Ascend's AI Core has one for its cube core and two for its vector cores.
struct Stream {
  std::string name;
  std::uint32_t count = 1;
  std::vector<std::uint8_t> queues, memories;  // indices; the scalar queue and global memory are every stream's
};

// A legal move between two spaces: bandwidth = min(peak * B / (K + B), share of the memory), where B is
// the length of the contiguous runs in bytes.
struct Path {
  Space from = Space::global, to = Space::staging;
  Pipe pipe = Pipe::load;
  double bytes_per_cycle = 0;  // peak
  double half_burst = 0;       // K, bytes
  double latency = 0;          // cycles from start to first byte
  bool dram = false;           // takes part in the sharing of global memory's bandwidth
  Relayout nd2nz{}, turn{};    // rows become fractal blocks; an operand goes against the unit's order
  double peak(const Relayout& change) const {
    const double peak = change.bytes_per_cycle > 0 ? change.bytes_per_cycle : bytes_per_cycle;
    return change.pass_bytes_per_cycle > 0 ? 1 / (1 / peak + 1 / change.pass_bytes_per_cycle) : peak;
  }
  // How much longer a byte takes that changes its layout, in the time of one that does not.
  double nd2nz_extra() const { return bytes_per_cycle / peak(nd2nz) - 1; }
};

enum class Dataflow : std::uint8_t { weight_stationary, output_stationary };

// Loads of an array's weights: seen in each fold, only in the first (the fold's stream of rows, its skew
// included, hides the next one), or only in the first and with the rows of folds one behind the other.
enum class Preload : std::uint8_t { exposed, hidden, pipelined };

// How the right operand must lie for the matrix unit to take it as it comes: its rows (of n elements) or
// its columns (of k) one after another; the other way it is turned.
enum class RightOrder : std::uint8_t { any, rows, columns };

struct MatrixRate {
  DType in = DType::f16, out = DType::f32;
  std::uint32_t m = 16, n = 16, k = 16;  // the tile of one step
  double cycles = 1;                     // of one step, once the pipe is full
  double weight_cycles = 0;              // to bring a k x n tile of the right operand in, before m x k tiles stream by
  double turn_cycles = 0;                // to transpose that tile, where no feed path has done so
};

enum class DrainScales : std::uint8_t { none, one, columns };

// What an accumulator can become on its way out.
struct DrainForm {
  DType from = DType::f32, to = DType::f32;
  DrainScales scales = DrainScales::none;  // one for all, or also one for each column
  bool bias = false;                       // one for each column
};

struct MatrixUnit {
  std::vector<MatrixRate> rates;
  std::vector<DrainForm> drain;
  Dataflow dataflow = Dataflow::output_stationary;
  bool systolic = false;  // cycles follow SCALE-Sim's fill and drain of a rows x columns array
  std::uint32_t rows = 0, columns = 0;
  std::uint32_t m_granule = 1;  // rows below a multiple of it cost the same
  Preload preload = Preload::exposed;
  std::uint32_t arrays = 1;  // systolic: as many share the folds of a product
  RightOrder right = RightOrder::any;
  double head = 0;  // cycles before the first step
};

struct VectorCost {
  double head = 0;        // cycles before the first result
  double slope = 1;       // cycles for each full row of lanes
  bool available = true;  // false: the description gives it no price, and the unit does not have it
};

struct VectorUnit {
  std::uint32_t bytes = 256;  // one instruction's width: lanes = bytes / size of the element
  std::uint32_t align = 1;    // bytes: of every row of an operand
  double column_cycles = 0;   // for each row whose operand of one column is brought to all lanes
  std::array<VectorCost, vector_ops> cost{};
};

struct Sync {
  std::uint32_t flags = 8;  // ids 0..flags-1 for every ordered pair of pipes
  std::uint32_t depth = 1;  // sets that may stand before a wait takes one
  double set_cycles = 1, wait_cycles = 1;
  double barrier_cycles = 1, cross_cycles = 1;
  // Flags between the streams of a core: ids of each direction between two streams, sets that may stand, cycles
  // from a set to the earliest end of its wait. wait_stops_stream: the waiting stream issues nothing until then;
  // else only the queue that waits stands.
  std::uint32_t stream_flags = 0, stream_depth = 1;
  double stream_cycles = 0;
  bool wait_stops_stream = false;
  // Granule in which the drain follows the product of the same accumulator without a flag; 0: it cannot.
  std::uint32_t unit_flag_bytes = 0;
};

// Reads and writes of global memory by the scalar unit, through a cache of its own.
struct ScalarReads {
  double miss_cycles = 0;  // of a line that is not there, or that is cleaned or invalidated
  std::uint32_t line = 64, lines = 256;
  // false: what others write does not show in its lines until they are invalidated, nor what it writes to others until
  // they are cleaned.
  bool coherent = true;
};

// The cache between global memory and the cores. What is there costs global memory nothing.
struct Cache {
  std::uint64_t bytes = 0;  // 0: there is none
  std::uint32_t line = 128;
  double bytes_per_cycle = 0;       // all cores together
  double bytes_per_cycle_core = 0;  // one core alone
  double latency = 0;               // cycles from start to first byte, of a transfer that finds everything there
  bool hints = false;               // a tensor that is read or written once may stay out of it
};

struct Numerics {
  bool fused_multiply_add = true;
  std::uint32_t k_block = 16;  // products summed (in ascending k) before they meet the accumulator; 1: one by one
};

struct Compile {  // what it costs to bind a static graph: fixed + per_token * length
  double fixed_ms = 0, per_token_ms = 0;
};

// What a program costs beside its own cycles, in microseconds.
struct HostCost {
  double launch_us = 0;    // from a call on an idle device to the program's first cycle, and from its last to the end
  double dispatch_us = 0;  // between a program's last cycle and the first of one that stands in line behind it
  double sync_us = 0;      // until a host that waits for a device knows that it is done
};

// Where a number comes from. Every number of a description has one, found by its JSON pointer.
struct Provenance {
  std::string pointer, source, confidence;  // confidence: "measured" | "documented" | "derived" | "assumed"
  std::string key;                          // of the source: figures of one key may be wrong together
  double value = 0;
  bool whole = false;
  double low = 0, high = 0;  // the true value lies between them, as far as the source says: of its confidence where
                             // it says nothing (assumed: half to twice, derived: a fifth either way)
};

struct Device {
  std::string name;
  int version = 0;
  std::uint32_t cores = 1;
  double ghz = 1;
  double dram_bytes_per_cycle = 0;       // all cores together
  double dram_bytes_per_cycle_core = 0;  // one core alone
  Cache l2;
  ScalarReads scalar;
  std::vector<Memory> memories;                  // [0] is global memory
  std::array<std::uint8_t, spaces> memory_of{};  // role -> memories
  std::vector<Queue> queues;
  std::array<std::uint8_t, pipes> queue_of{};  // role -> queues
  std::vector<Stream> streams;                 // of a core; none: one stream issues into all queues
  std::vector<Path> paths;
  MatrixUnit matrix;
  VectorUnit vector;
  Sync sync;
  Numerics numerics;
  Compile compile;
  HostCost host;
  std::vector<Provenance> provenance;
  // What global memory gives to all who share it, of which dram_bytes_per_cycle are what this device draws at most.
  double memory_bytes_per_cycle = 0;  // less than these: they are all of it

  // What the device draws where others leave this share of its memory.
  double dram_at_share(double share) const {
    return std::min(dram_bytes_per_cycle, std::max(memory_bytes_per_cycle, dram_bytes_per_cycle) * share);
  }
  bool same_memory(Space a, Space b) const { return memory_of[static_cast<int>(a)] == memory_of[static_cast<int>(b)]; }
  const Memory& memory(Space space) const { return memories[memory_of[static_cast<int>(space)]]; }
  const Path* path(Space from, Space to) const;  // null: not a legal move
  // Index into streams of the one that has the pipe, or the memory. Of what all have, and without streams: 0.
  std::uint8_t stream_of(Pipe pipe) const;
  std::uint8_t stream_of(Space space) const;
  bool has_queue(std::size_t stream, std::size_t queue) const;  // of a stream: the scalar one, or its own
  std::uint32_t vector_units() const {                          // of a core, each with a stream
    return streams.empty() ? 1 : streams[stream_of(Pipe::vector)].count;
  }
  bool feeds_are_views() const;  // left and right are staging itself: to fill them costs nothing
  const MatrixRate* rate(DType in, DType out) const;
  index fractal_block(DType dtype) const;  // columns of a block of the nz layout: those of a step of the matrix unit
  const DrainForm* drain(DType from, DType to) const;  // null: the device does not
  bool turns(bool flipped) const {  // the right operand, or its transpose, goes against the unit's order
    return matrix.right != RightOrder::any && (matrix.right == RightOrder::columns) != flipped;
  }
};

// Errors name the key by its JSON pointer, its value, and what it must be.
tl::expected<Device, Status> parse_device(std::string_view json);
tl::expected<Device, Status> load_device(const std::filesystem::path& file);

}  // namespace inlay::npu
