#include "npu_kernels/machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

std::uint64_t parts(std::uint64_t whole, std::uint64_t part) { return (whole + part - 1) / part; }

std::uint64_t systolic_cycles(const MatrixUnit& unit, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  const std::uint64_t skew = std::uint64_t{unit.rows} + unit.columns - 2;
  if (unit.dataflow == Dataflow::output_stationary)
    return parts(m, unit.rows) * parts(n, unit.columns) * (k + skew) - 1;
  const std::uint64_t folds = parts(k, unit.rows) * parts(n, unit.columns);
  const std::uint64_t preloads = unit.hidden_preload ? 1 : folds;
  return preloads * unit.rows + folds * (m + skew) - 1;
}

}  // namespace

double matrix_cycles(const MatrixUnit& unit, const MatrixRate& rate, std::uint64_t m, std::uint64_t n,
                     std::uint64_t k) {
  if (m == 0 || n == 0 || k == 0) return 0;
  m = parts(m, unit.m_granule) * unit.m_granule;
  const std::uint64_t steps =
      unit.systolic ? systolic_cycles(unit, m, n, k) : parts(m, rate.m) * parts(n, rate.n) * parts(k, rate.k);
  return static_cast<double>(steps) * rate.cycles;
}

double peak_products(const MatrixUnit& unit, const MatrixRate& rate) {
  const double cells =
      unit.systolic ? static_cast<double>(unit.rows) * unit.columns : static_cast<double>(rate.m) * rate.n * rate.k;
  return cells / rate.cycles;
}

}  // namespace inlay::npu
