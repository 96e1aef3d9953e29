#include "npu_kernels/machine/time/roofline.hpp"

#include <algorithm>

#include "npu_kernels/machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

// The least cycles of one entry on its pipe.
double least_cycles(const Device& device, const Entry& entry) {
  if (entry.work.unit != Unit::dma) return to_cycles(cost_of(device, entry).units);
  const Path& path = device.paths[entry.work.path];
  double bandwidth = path.bytes_per_cycle;
  if (path.dram) bandwidth = std::min({bandwidth, device.dram_bytes_per_cycle_core, device.dram_bytes_per_cycle});
  return static_cast<double>(entry.work.bytes) / bandwidth;
}

double peak_cycles(const Device& device, const Work& work) {
  return static_cast<double>(work.m) * work.n * work.k / peak_products(device.matrix, *device.rate(work.in, work.out));
}

}  // namespace

double Roofline::dma_share() const {
  double cycles = 0;
  for (const Bound& bound : bounds)
    if (bound.dma) cycles = std::max(cycles, bound.cycles);
  return makespan > 0 ? cycles / makespan : 0;
}

Roofline roofline(const Tape& tape, const Device& device, const Timeline& timeline) {
  const TapeOrder& order = timeline.order;
  Roofline result;
  result.makespan = to_cycles(timeline.makespan);
  for (const Queue& queue : device.queues) result.bounds.push_back({.resource = queue.name});
  std::vector<double> lane_cycles(order.lanes()), products(order.cores());
  std::vector<std::uint64_t> dram_bytes(order.cores());
  for (const Entry& entry : tape.entries) {
    if (entry.event != Event::work) continue;
    const Work& work = entry.work;
    const std::uint32_t lane = order.lane_of(entry);
    Bound& bound = result.bounds[lane % order.queues()];
    lane_cycles[lane] += least_cycles(device, entry);
    if (work.unit == Unit::dma) {
      bound.bytes += work.bytes;
      if (device.paths[work.path].dram) dram_bytes[entry.core] += work.bytes;
    } else if (work.unit == Unit::matrix) {
      bound.operations += std::uint64_t{2} * work.m * work.n * work.k;
      products[entry.core] += peak_cycles(device, work);
    } else if (work.unit == Unit::vector) {
      bound.operations += work.elements;
    }
  }
  for (Bound& bound : result.bounds) bound.dma = bound.bytes > 0 && bound.operations == 0;
  for (std::uint32_t lane = 0; lane < order.lanes(); ++lane) {
    Bound& bound = result.bounds[lane % order.queues()];
    bound.cycles = std::max(bound.cycles, lane_cycles[lane]);
    bound.busy = std::max(bound.busy, to_cycles(timeline.lanes[lane].busy));
  }
  Bound memory{.resource = "global memory", .dma = true}, core{.resource = "global memory, one core", .dma = true};
  for (std::uint64_t bytes : dram_bytes) {
    memory.bytes += bytes;
    if (bytes > 0) core.cycles = std::max(core.cycles, static_cast<double>(bytes) / device.dram_bytes_per_cycle_core);
  }
  core.bytes = memory.bytes;
  if (memory.bytes > 0) memory.cycles = static_cast<double>(memory.bytes) / device.dram_bytes_per_cycle;
  memory.busy = memory.cycles;
  core.busy = core.cycles;
  result.bounds.push_back(memory);
  result.bounds.push_back(core);
  for (double cycles : products) result.matrix_peak = std::max(result.matrix_peak, cycles);
  result.bounding =
      static_cast<std::size_t>(std::max_element(result.bounds.begin(), result.bounds.end(),
                                                [](const Bound& a, const Bound& b) { return a.cycles < b.cycles; }) -
                               result.bounds.begin());
  return result;
}

}  // namespace inlay::npu
