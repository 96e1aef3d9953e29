#include "tile_machine/time/cost.hpp"

#include <algorithm>

#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

const Relayout& relayout(const Path& path, const Work& work) {
  static constexpr Relayout none{};
  return work.change == Change::nd2nz ? path.nd2nz : work.change == Change::turn ? path.turn : none;
}

// What the path itself allows, short runs and a change of layout included.
double path_bandwidth(const Device& device, const Work& work) {
  const Path& path = device.paths[work.path];
  const auto bytes = static_cast<double>(work.bytes), runs = static_cast<double>(std::max<std::uint64_t>(work.runs, 1));
  if (bytes == 0) return peak_bandwidth(path, work);
  const Relayout& change = relayout(path, work);
  // A second pass meets no runs: rows are there.
  const double pass = change.pass_bytes_per_cycle > 0 ? bytes / change.pass_bytes_per_cycle : 0;
  double bandwidth = change.bytes_per_cycle > 0 ? change.bytes_per_cycle : path.bytes_per_cycle;
  bandwidth *= bytes / (path.half_burst * runs + bytes);
  return bytes / (bytes / bandwidth + change.run_cycles * runs + pass);
}

Cost dma_cost(const Device& device, const Work& work, const Traffic* known) {
  const Path& path = device.paths[work.path];
  const auto rate_of = [](double bandwidth) { return std::max<Rate>(to_rate(bandwidth), 1); };
  Cost cost{.head = to_ticks(path.latency), .rate = rate_of(dma_bandwidth(device, work)), .shared = path.dram};
  if (path.dram && device.l2.bytes > 0) cost.l2_rate = rate_of(l2_bandwidth(device, work));
  cost.traffic = {.dram = work.bytes};
  cost.units = duration(to_amount(work.bytes), cost.rate);
  if (known != nullptr && path.dram) take_from_l2(device, *known, cost);
  return cost;
}

Cost vector_cost(const Device& device, const Work& work) {
  const VectorCost& cost = device.vector.cost[static_cast<int>(work.op)];
  const std::uint64_t element_bits = static_cast<std::uint64_t>(std::max(bits(work.in), bits(work.out)));
  const std::uint64_t lanes = std::max<std::uint64_t>(std::uint64_t{device.vector.bytes} * 8 / element_bits, 1);
  const std::uint64_t rows = std::max<std::uint64_t>(work.rows, 1), columns = (work.elements + rows - 1) / rows;
  const std::uint64_t instructions = rows * ((columns + lanes - 1) / lanes);
  const double broadcast = work.column ? device.vector.column_cycles * static_cast<double>(rows) : 0;
  return {.head = to_ticks(cost.head), .units = to_ticks(cost.slope * static_cast<double>(instructions) + broadcast)};
}

}  // namespace

void take_from_l2(const Device& device, const Traffic& traffic, Cost& cost) {
  cost.traffic = traffic;
  cost.units = duration(to_amount(traffic.dram), cost.rate);
  if (traffic.l2 == 0) return;
  cost.units += duration(to_amount(traffic.l2), cost.l2_rate);
  if (traffic.dram == 0) cost.head = std::min(cost.head, to_ticks(device.l2.latency));
}

double peak_bandwidth(const Path& path, const Work& work) { return path.peak(relayout(path, work)); }

double dma_bandwidth(const Device& device, const Work& work) {
  const double bandwidth = path_bandwidth(device, work);
  if (!device.paths[work.path].dram) return bandwidth;
  return std::min({bandwidth, device.dram_bytes_per_cycle_core, device.dram_bytes_per_cycle});
}

double l2_bandwidth(const Device& device, const Work& work) {
  return std::min({path_bandwidth(device, work), device.l2.bytes_per_cycle_core, device.l2.bytes_per_cycle});
}

Cost cost_of(const Device& device, const Entry& entry, const Before& before) {
  const Work& work = entry.work;
  switch (work.unit) {
    case Unit::dma: return dma_cost(device, work, before.traffic);
    case Unit::vector: return vector_cost(device, work);
    case Unit::matrix: {
      const MatrixRate* rate = device.rate(work.in, work.out);
      return {.head = to_ticks(device.matrix.head),
              .units = to_ticks(matrix_cycles(device.matrix, *rate, work.m, work.n, work.k, work.turned))};
    }
    case Unit::scalar:
      return {.units = to_ticks(device.queues[device.queue_of[0]].issue_cycles +
                                (before.misses ? device.scalar.miss_cycles : 0))};
    case Unit::none: break;
  }
  return {};
}

double compile_ms(const Compile& compile, double length) { return compile.fixed_ms + compile.per_token_ms * length; }

}  // namespace inlay::npu
