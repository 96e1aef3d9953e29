// What one entry of the log costs on its pipe, alone on the device.
//
//   cycles = head + units / throughput
//     DMA     latency + bytes / (peak * B / (K + B)),  B = bytes / runs; a change of layout has a peak of its own
//             and costs cycles for each run. Of global memory: what the L2 has comes at its rate, the rest at
//             that of global memory, one after the other (residency.hpp); the latency is the L2's where it has all
//     vector  head + rows * (slope * ceil(columns / lanes) + column), columns = elements / rows;
//             lanes = width / widest of its two element types, column: of an operand that is one column
//     matrix  head + matrix_cycles (matrix_cost.hpp)
//     scalar  issue, and of a line of global memory that the scalar unit's cache does not have, the miss
//
// Time is an integer: one tick is 1/1024 of a cycle. Sums are exact in any order, so that "busy and idle
// add up to the makespan" is an equality and not a tolerance.
#pragma once

#include <cmath>
#include <cstdint>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

using Tick = std::int64_t;
inline constexpr Tick ticks_per_cycle = 1024;

inline Tick to_ticks(double cycles) { return std::llround(cycles * ticks_per_cycle); }
constexpr double to_cycles(Tick ticks) { return static_cast<double>(ticks) / ticks_per_cycle; }

// Bytes move in units of 2^-28 byte. A rate is such units a tick, 2^-18 byte a cycle: a transfer of up to
// 16 GiB is exact in 64 bits, and a transfer at a constant rate ends at a tick that no rounding blurs.
using Rate = std::int64_t;
using Amount = std::int64_t;
inline constexpr int amount_shift = 28;
inline constexpr std::uint64_t max_transfer_bytes = std::uint64_t{1} << 34;

// Rounded down: the model is never faster than the description.
inline Rate to_rate(double bytes_per_cycle) {
  return static_cast<Rate>(bytes_per_cycle * (std::int64_t{1} << amount_shift) / ticks_per_cycle);
}
constexpr double to_bytes_per_cycle(Rate rate) {
  return static_cast<double>(rate) * ticks_per_cycle / (std::int64_t{1} << amount_shift);
}
constexpr Amount to_amount(std::uint64_t bytes) { return static_cast<Amount>(bytes << amount_shift); }
constexpr Tick duration(Amount amount, Rate rate) { return (amount + rate - 1) / rate; }

// Bytes of a transfer of global memory: what global memory itself has to move, and what the L2 has.
struct Traffic {
  std::uint64_t dram = 0, l2 = 0;
};

struct Cost {
  Tick head = 0;               // before the first unit
  Tick units = 0;              // of the units alone
  Rate rate = 0, l2_rate = 0;  // of a transfer, alone on the device
  bool shared = false;         // a transfer of global memory: others may slow it down
  Traffic traffic{};           // the bytes of a transfer
};

// What cost_of needs to know beside the entry: what came before it.
struct Before {
  const Traffic* traffic = nullptr;  // of a transfer of global memory; null: all of its bytes come from there
  bool misses = false;               // of a scalar read of global memory: its line is not there
};

// What a transfer of global memory costs when the L2 has some of its bytes, by what it costs alone.
void take_from_l2(const Device& device, const Traffic& traffic, Cost& cost);

// Of an entry with Event::work, one that EventOrder::of (event_order.hpp) let pass.
Cost cost_of(const Device& device, const Entry& entry, const Before& before = {});

// Bytes a cycle of a path at its best, runs of any length: of a change of layout its own peak.
double peak_bandwidth(const Path& path, const Work& work);

// Bytes a cycle of a transfer that is alone on the device: from global memory or its path, and from the L2.
double dma_bandwidth(const Device& device, const Work& work);
double l2_bandwidth(const Device& device, const Work& work);

// Binding a static graph to exact shapes, in milliseconds: fixed + per_token * length.
double compile_ms(const Compile& compile, double length);

}  // namespace inlay::npu
