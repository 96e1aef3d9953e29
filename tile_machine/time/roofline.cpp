#include "tile_machine/time/roofline.hpp"

#include <algorithm>

#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

// The least cycles of one entry on its pipe.
double min_cycles(const Device& device, const Entry& entry, const Before& before) {
  if (entry.work.unit != Unit::dma) return to_cycles(cost_of(device, entry, before).units);
  const Path& path = device.paths[entry.work.path];
  const double peak = peak_bandwidth(path, entry.work);
  if (!path.dram) return static_cast<double>(entry.work.bytes) / peak;
  const Traffic traffic = before.traffic != nullptr ? *before.traffic : Traffic{.dram = entry.work.bytes};
  double cycles = static_cast<double>(traffic.dram) /
                  std::min({peak, device.dram_bytes_per_cycle_core, device.dram_bytes_per_cycle});
  if (traffic.l2 > 0) cycles += static_cast<double>(traffic.l2) / std::min(peak, device.l2.bytes_per_cycle_core);
  return cycles;
}

// A bandwidth that all cores share: the bytes of each against all of it and against one core's part.
void add_shared(Roofline& roof, const std::string& name, const Limits& limits,
                const std::vector<std::uint64_t>& bytes) {
  Bound all{.resource = name, .dma = true}, core{.resource = name + ", one core", .dma = true};
  for (std::uint64_t of_core : bytes) {
    all.bytes += of_core;
    if (of_core > 0) core.cycles = std::max(core.cycles, static_cast<double>(of_core) / limits.bytes_per_cycle_core);
  }
  core.bytes = all.bytes;
  if (all.bytes > 0) all.cycles = static_cast<double>(all.bytes) / limits.bytes_per_cycle;
  all.busy = all.cycles;
  core.busy = core.cycles;
  roof.bounds.push_back(all);
  roof.bounds.push_back(core);
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

double min_cycles(const Device& device, const RooflineWork& problem) {
  const double bandwidth = std::min(device.dram_bytes_per_cycle, device.cores * device.dram_bytes_per_cycle_core);
  const double bytes = problem.bytes > 0 ? static_cast<double>(problem.bytes) / bandwidth : 0;
  double products = 0;
  for (const RooflineWork::Products& part : problem.products)
    if (const MatrixRate* rate = device.rate(part.in, part.out))
      products += static_cast<double>(part.operations) / 2 / peak_products(device.matrix, *rate) / device.cores;
  return std::max(bytes, products);
}

Roofline roofline(const EventLog& log, const Device& device, const Timeline& timeline, const RooflineWork& problem) {
  const EventOrder& order = timeline.order;
  Roofline result;
  result.problem = min_cycles(device, problem);
  result.makespan = to_cycles(timeline.makespan);
  for (const Queue& queue : device.queues) result.bounds.push_back({.resource = queue.name});
  std::vector<double> lane_cycles(order.lanes()), products(order.cores());
  std::vector<std::uint64_t> dram_bytes(order.cores()), l2_bytes(order.cores());
  for (std::uint32_t index = 0; index < log.entries.size(); ++index) {
    const Entry& entry = log.entries[index];
    if (entry.event != Event::work) continue;
    const Work& work = entry.work;
    const Before before = timeline.residency.before(index);
    const std::uint32_t lane = order.lane_of(entry);
    Bound& bound = result.bounds[lane % order.queues()];
    lane_cycles[lane] += min_cycles(device, entry, before);
    if (work.unit == Unit::dma) {
      bound.bytes += work.bytes;
      if (device.paths[work.path].dram) {
        dram_bytes[entry.core] += before.traffic != nullptr ? before.traffic->dram : work.bytes;
        l2_bytes[entry.core] += before.traffic != nullptr ? before.traffic->l2 : 0;
      }
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
  add_shared(result, "global memory", {device.dram_bytes_per_cycle, device.dram_bytes_per_cycle_core}, dram_bytes);
  if (device.l2.bytes > 0)
    add_shared(result, "L2", {device.l2.bytes_per_cycle, device.l2.bytes_per_cycle_core}, l2_bytes);
  for (double cycles : products) result.matrix_peak = std::max(result.matrix_peak, cycles);
  result.bounding =
      static_cast<std::size_t>(std::max_element(result.bounds.begin(), result.bounds.end(),
                                                [](const Bound& a, const Bound& b) { return a.cycles < b.cycles; }) -
                               result.bounds.begin());
  return result;
}

}  // namespace inlay::npu
