// The log: what a run of a tile program put into its queues, in the order of issue.
//
// The machine writes it; checker (happens-before), timing (stalls, critical path, trace) and the mutation
// suite's oracle read it. It holds no data, only footprints, synchronisation and work: the three readers
// need neither the machine nor each other.
//
// Meaning. Each core has one scalar stream, or several (device.streams), that issue entries into in-order
// queues (device.queues), each stream into queues of its own. An entry of a queue starts after its
// predecessors in that queue, and after its scalar stream issued it.
//   clean, invalidate  work of the scalar unit (Entry::line): from then on memory has what it wrote of the footprint's
//                         lines; it has none of them, and reads them anew
//   set(from, to, flag)   entry of `from`'s queue: done when all earlier entries of that queue are done
//   wait(from, to, flag)  entry of `to`'s queue: later entries of that queue start after the matching set;
//                         the n-th wait of a channel (core, from, to, flag) takes its n-th set. With
//                         to == scalar the stream itself stops: everything issued later comes after it
//   barrier(pipe)         later entries of that queue start after all of its earlier ones are complete
//                         (queues start in order, but only sync makes effects visible, except in a queue
//                         that the device calls in_order_visible)
//   barrier_all           the stream stops until every queue of its own is empty
//   stream_set/stream_wait  as set and wait between two streams of a core: channel (core, from stream, to
//                         stream, flag); the wait is over stream_cycles after its set, at the earliest
//   cross_set/cross_wait  the same between cores: channel (flag id, to core)
//   sync_all              every stream of every core stops until all have come, queues empty
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <inlay/core/cache_line_allocator.hpp>

#include "tile_machine/device/device.hpp"
#include "tile_machine/events/source_location.hpp"

namespace inlay::npu {

enum class Event : std::uint8_t {
  work,  // a DMA, a product, a vector operation, a scalar read
  set,
  wait,
  barrier,
  barrier_all,
  stream_set,
  stream_wait,
  cross_set,
  cross_wait,
  sync_all,
  allocate,
  release,  // of scratch memory; entries of the scalar stream
};

// Bytes that an entry touches in one memory: `runs` runs of `run_bytes`, `stride` bytes apart.
struct Footprint {
  std::uint8_t memory = 0;  // index into Device::memories; 0 is shared by the cores
  bool write = false;
  bool atomic = false;       // atomic_add: two of these do not race
  std::uint32_t buffer = 0;  // allocation, index into EventLog::buffers
  std::uint64_t begin = 0;   // bytes from the start of the memory (global: of the machine's address space)
  std::uint32_t runs = 1;
  std::uint64_t run_bytes = 0, stride = 0;
  bool streamed = false;  // of global memory: touched once, need not stay in a cache
};

struct Buffer {
  std::uint8_t memory = 0;
  std::uint16_t core = 0;
  std::uint64_t begin = 0, bytes = 0;
  std::string name;  // as the kernel called it
  SourceLocation site{};
  std::uint8_t stream = 0;  // of the core: whose memory it is in
  bool workspace = false;   // of global memory: nobody reads it after the run
};

// What a transfer changes beside the place (Path::nd2nz, Path::turn).
enum class Change : std::uint8_t { none, nd2nz, turn };

enum class Unit : std::uint8_t { none, dma, matrix, vector, scalar };

// What the scalar unit does to lines of its cache of global memory, in place of a read or write.
enum class LineVerb : std::uint8_t { none, clean, invalidate };

// What an entry costs: units, not cycles. The timing model turns them into cycles.
struct Work {
  Unit unit = Unit::none;
  std::uint8_t path = 0;         // dma: index into Device::paths
  Change change = Change::none;  // dma
  bool turned = false;           // matrix: the right operand goes against the unit's order
  bool column = false;           // vector: an operand is one column, brought to all lanes row by row
  VectorOp op = VectorOp::add;   // vector
  DType in = DType::f32, out = DType::f32;
  std::uint32_t m = 0, n = 0, k = 0;  // matrix
  std::uint32_t rows = 1;             // vector: the elements stand in as many rows, each of which starts in lane 0
  std::uint64_t bytes = 0;            // dma: moved
  std::uint64_t runs = 0;             // dma: contiguous runs (bytes / runs = B)
  std::uint64_t elements = 0;         // vector: in all rows
};

struct Entry {
  Event event = Event::work;
  bool ring = false;  // set/wait that a ring made: a wait on it is "ring full" or "ring empty"
  bool unit = false;  // set of a unit flag: the waiting queue follows granule by granule (Sync::unit_flag_bytes)
  std::uint16_t core = 0;
  std::uint8_t stream = 0;                            // of the core, index into EventLog::streams
  std::uint8_t peer_stream = 0;                       // stream_*: the other stream
  Pipe pipe = Pipe::scalar;                           // whose queue holds it: of a set `from`, of a wait `to`
  Pipe from = Pipe::scalar, to = Pipe::scalar;        // set, wait, stream_*
  LineVerb line = LineVerb::none;                     // work of the scalar unit
  std::uint16_t flag = 0;                             // set, wait, stream_*, cross_*
  std::uint16_t peer = 0;                             // cross_*: the other core
  std::uint32_t buffer = 0;                           // allocate, release
  std::uint32_t footprints = 0, footprint_count = 0;  // range in EventLog::footprints
  Work work{};
  const char* verb = "";  // "copy", "mma", .. as the kernel wrote it
  SourceLocation site{};
};

// In place of an entry's number: there is none.
inline constexpr std::uint32_t no_entry = 0xffffffffu;

inline bool sets(Event event) { return event == Event::set || event == Event::stream_set || event == Event::cross_set; }
inline bool waits(Event event) {
  return event == Event::wait || event == Event::stream_wait || event == Event::cross_wait;
}

// Of what a log has millions of: in huge pages, where the system gives them.
template <class T> using Many = std::vector<T, CacheLineAllocator<T>>;

struct EventLog {
  std::uint16_t cores = 1;
  std::vector<std::uint8_t> streams = {0};  // of each core: which of Device::streams each is an instance of
  Many<Entry> entries;                      // of all cores, in an order in which the machine really ran them
  Many<Footprint> footprints;
  std::vector<Buffer> buffers;
};

}  // namespace inlay::npu
