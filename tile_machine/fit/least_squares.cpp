#include "tile_machine/fit/least_squares.hpp"

#include <algorithm>
#include <cmath>

namespace inlay::npu {

namespace {

constexpr double smallest_pivot = 1e-10;
// Equations further off than so many spreads are left out: a transfer that met others, an instruction that waited.
constexpr double outlier_spreads = 4;
constexpr int rounds = 6;

double prediction(const Equation& equation, const Solution& solution, std::size_t unknowns) {
  double sum = 0;
  for (std::size_t i = 0; i < unknowns; ++i) sum += equation.x[i] * solution.value[i];
  return sum;
}

double residual(const Equation& equation, const Solution& solution, std::size_t unknowns) {
  return (prediction(equation, solution, unknowns) - equation.y) / equation.scale;
}

Solution solve(std::span<const Equation> equations, const std::vector<bool>& used, std::size_t unknowns) {
  Solution solution;
  std::vector<double> normal(unknowns * unknowns), right(unknowns);
  for (std::size_t e = 0; e < equations.size(); ++e) {
    if (!used[e]) continue;
    ++solution.used;
    const double weight = 1 / equations[e].scale;
    for (std::size_t i = 0; i < unknowns; ++i) {
      right[i] += equations[e].x[i] * weight * equations[e].y * weight;
      for (std::size_t j = 0; j < unknowns; ++j)
        normal[i * unknowns + j] += equations[e].x[i] * weight * equations[e].x[j] * weight;
    }
  }
  const std::vector<double> inverse = inverse_of_definite(normal, unknowns);
  if (inverse.empty() || solution.used < 2 * unknowns) return solution;
  for (std::size_t i = 0; i < unknowns; ++i)
    for (std::size_t j = 0; j < unknowns; ++j) solution.value[i] += inverse[i * unknowns + j] * right[j];
  double squares = 0;
  for (std::size_t e = 0; e < equations.size(); ++e)
    if (used[e]) squares += std::pow(residual(equations[e], solution, unknowns), 2);
  const double variance = squares / static_cast<double>(solution.used - unknowns);
  solution.spread = std::sqrt(variance);
  for (std::size_t i = 0; i < unknowns; ++i) solution.error[i] = std::sqrt(variance * inverse[i * unknowns + i]);
  if (unknowns > 1) {
    const std::size_t over = unknowns - 1, under = unknowns - 2;
    const double quotient = solution.value[over] / solution.value[under];
    const double spread = inverse[over * unknowns + over] - 2 * quotient * inverse[over * unknowns + under] +
                          quotient * quotient * inverse[under * unknowns + under];
    solution.quotient_error = std::sqrt(std::max(variance * spread, 0.0)) / std::abs(solution.value[under]);
  }
  solution.determined = true;
  return solution;
}

}  // namespace

std::vector<double> inverse_of_definite(const std::vector<double>& matrix, std::size_t n) {
  // Cholesky of the matrix with a unit diagonal: unknowns may differ by many orders of magnitude.
  std::vector<double> scale(n), lower(n * n), inverse(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!(matrix[i * n + i] > 0)) return {};
    scale[i] = 1 / std::sqrt(matrix[i * n + i]);
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j] * scale[i] * scale[j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * n + k] * lower[j * n + k];
      if (i == j && !(sum > smallest_pivot)) return {};
      lower[i * n + j] = i == j ? std::sqrt(sum) : sum / lower[j * n + j];
    }
  std::vector<double> column(n);
  for (std::size_t c = 0; c < n; ++c) {
    for (std::size_t i = 0; i < n; ++i) {
      double sum = i == c ? 1 : 0;
      for (std::size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * column[k];
      column[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      double sum = column[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= lower[k * n + i] * column[k];
      column[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = 0; i < n; ++i) inverse[i * n + c] = column[i] * scale[i] * scale[c];
  }
  return inverse;
}

Solution solve_scaled(std::span<const Equation> equations, std::size_t unknowns) {
  std::vector<bool> used(equations.size(), true);
  Solution solution = solve(equations, used, unknowns);
  for (int round = 0; solution.determined && round < rounds; ++round) {
    std::vector<double> off;
    for (const Equation& equation : equations) off.push_back(std::abs(residual(equation, solution, unknowns)));
    std::vector<double> sorted = off;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    // 1.48 medians of the residuals are one standard deviation of normal ones; 1e-4 is what a log's digits leave.
    const double limit = outlier_spreads * std::max(1.48 * sorted[sorted.size() / 2], 1e-4);
    std::vector<bool> next;
    for (const double each : off) next.push_back(each <= limit);
    if (next == used) break;
    used = std::move(next);
    solution = solve(equations, used, unknowns);
  }
  return solution;
}

}  // namespace inlay::npu
