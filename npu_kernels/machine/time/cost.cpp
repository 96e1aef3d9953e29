#include "npu_kernels/machine/time/cost.hpp"

#include <algorithm>

#include "npu_kernels/machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

Cost dma_cost(const Device& device, const Work& work) {
  const Path& path = device.paths[work.path];
  const double burst = static_cast<double>(work.bytes) / static_cast<double>(std::max<std::uint64_t>(work.runs, 1));
  double bandwidth = path.bytes_per_cycle;
  if (burst > 0) bandwidth *= burst / (path.half_burst + burst);
  if (path.dram) bandwidth = std::min({bandwidth, device.dram_bytes_per_cycle_core, device.dram_bytes_per_cycle});
  const Rate rate = std::max<Rate>(to_rate(bandwidth), 1);
  return {
      .head = to_ticks(path.latency), .units = duration(to_amount(work.bytes), rate), .rate = rate, .dram = path.dram};
}

Cost vector_cost(const Device& device, const Work& work) {
  const VectorCost& cost = device.vector.cost[static_cast<int>(work.op)];
  const std::uint64_t element_bits = static_cast<std::uint64_t>(std::max(bits(work.in), bits(work.out)));
  const std::uint64_t lanes = std::max<std::uint64_t>(std::uint64_t{device.vector.bytes} * 8 / element_bits, 1);
  const std::uint64_t rows = (work.elements + lanes - 1) / lanes;
  return {.head = to_ticks(cost.head), .units = to_ticks(cost.slope * static_cast<double>(rows))};
}

}  // namespace

Cost cost_of(const Device& device, const Entry& entry) {
  const Work& work = entry.work;
  switch (work.unit) {
    case Unit::dma: return dma_cost(device, work);
    case Unit::vector: return vector_cost(device, work);
    case Unit::matrix: {
      const MatrixRate* rate = device.rate(work.in, work.out);
      return {.head = to_ticks(device.matrix.head),
              .units = to_ticks(matrix_cycles(device.matrix, *rate, work.m, work.n, work.k))};
    }
    case Unit::scalar: return {.units = to_ticks(device.queues[device.queue_of[0]].issue_cycles)};
    case Unit::none: break;
  }
  return {};
}

double compile_ms(const Compile& compile, double length) { return compile.fixed_ms + compile.per_token_ms * length; }

}  // namespace inlay::npu
