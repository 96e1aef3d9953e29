#include "tile_machine/time/matrix_cost.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

std::uint64_t parts(std::uint64_t whole, std::uint64_t part) { return (whole + part - 1) / part; }

std::uint64_t systolic_cycles(const MatrixUnit& unit, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  const std::uint64_t rows = unit.rows, columns = unit.columns, skew = rows + columns - 2;
  const auto of_one = [&](std::uint64_t folds) { return parts(folds, unit.arrays); };
  if (unit.dataflow == Dataflow::output_stationary) return of_one(parts(m, rows) * parts(n, columns)) * (k + skew) - 1;
  const std::uint64_t folds = of_one(parts(k, rows) * parts(n, columns));
  switch (unit.preload) {
    case Preload::exposed: return folds * (rows + m + skew) - 1;
    case Preload::hidden: return rows + folds * (m + skew) - 1;
    case Preload::pipelined: break;
  }
  return rows + (folds - 1) * std::max(m, rows) + m + skew - 1;
}

double fixed_tile_cycles(const MatrixRate& rate, std::uint64_t m, std::uint64_t n, std::uint64_t k, bool turned) {
  const double weights = rate.weight_cycles + (turned ? rate.turn_cycles : 0);
  return static_cast<double>(parts(n, rate.n) * parts(k, rate.k)) *
         (weights + static_cast<double>(parts(m, rate.m)) * rate.cycles);
}

}  // namespace

double matrix_cycles(const MatrixUnit& unit, const MatrixRate& rate, std::uint64_t m, std::uint64_t n, std::uint64_t k,
                     bool turned) {
  if (m == 0 || n == 0 || k == 0) return 0;
  m = parts(m, unit.m_granule) * unit.m_granule;
  if (!unit.systolic) return fixed_tile_cycles(rate, m, n, k, turned);
  return static_cast<double>(systolic_cycles(unit, m, n, k)) * rate.cycles;
}

double peak_products(const MatrixUnit& unit, const MatrixRate& rate) {
  const double cells = unit.systolic ? static_cast<double>(unit.arrays) * unit.rows * unit.columns
                                     : static_cast<double>(rate.m) * rate.n * rate.k;
  return cells / rate.cycles;
}

}  // namespace inlay::npu
