#include "tools/simulate/phone.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>

namespace inlay::tools {
namespace {

// Table 3 of HeteroLLM: weights [outputs, inputs], microseconds.
struct Measured {
  index outputs, inputs, tokens;
  double gpu_us, npu_us;
};
constexpr Measured table_3[] = {
    {4096, 4096, 1, 511, 693},    {28672, 4096, 1, 1903, 3886},   {4096, 14336, 1, 1467, 6506},
    {4096, 4096, 128, 7306, 912}, {4096, 4096, 256, 10841, 1884}, {4096, 14336, 256, 35231, 23445},
};
constexpr double square = 4096.0 * 4096.0;
constexpr index array = 32;  // section 3.2: 32 x 32 systolic arrays

struct Point {
  double tokens, us;
};

// A line between points, and the last line beyond them.
double between(std::span<const Point> points, double tokens) {
  std::size_t i = 1;
  while (i + 1 < points.size() && points[i].tokens < tokens) ++i;
  const Point &low = points[i - 1], &high = points[i];
  if (tokens <= points.front().tokens) return points.front().us;
  return low.us + (high.us - low.us) * (tokens - low.tokens) / (high.tokens - low.tokens);
}

// 4096 x 4096, which is measured most.
double gpu_square_us(double tokens) {
  constexpr Point points[] = {{1, 511}, {128, 7306}, {256, 10841}};
  return between(points, tokens);
}
// Fewer than 32 tokens take what 32 do (stage performance).
double npu_square_us(double tokens) {
  constexpr Point points[] = {{array, 693}, {128, 912}, {256, 1884}};
  return between(points, tokens);
}

// What a linear of another shape takes over its share of 4096 x 4096: as measured at one token, or at most tokens.
double measured_factor(index outputs, index inputs, bool one_token, bool npu) {
  double factor = 0;
  for (const Measured& each : table_3) {
    if (each.outputs != outputs || each.inputs != inputs || (each.tokens == 1) != one_token) continue;
    const double share = static_cast<double>(outputs * inputs) / square, tokens = static_cast<double>(each.tokens);
    factor = npu ? each.npu_us / (npu_square_us(tokens) * share) : each.gpu_us / (gpu_square_us(tokens) * share);
  }
  return factor;
}

// 1 at a ratio of 1, `most` at `ratio` 3.5 and beyond: both are measured at 14336 by 4096 alone.
double by_ratio(double ratio, double most) {
  return std::pow(most, std::clamp(std::log(ratio) / std::log(3.5), 0.0, 1.0));
}

}  // namespace

exec::LinearTime gpu_time(const Phone& phone, index outputs, index inputs) {
  const double share = static_cast<double>(outputs * inputs) / square;
  const double one = measured_factor(outputs, inputs, true, false),
               many = measured_factor(outputs, inputs, false, false);
  return [=, flops_a_us = phone.gpu_flops_a_us, submit_us = phone.submit_us](const exec::LinearShape& s) {
    const auto tokens = static_cast<double>(s.tokens);
    const double factor = s.tokens == 1 ? one : many;
    const double whole =
        std::max(gpu_square_us(tokens) * share * (factor > 0 ? factor : 1), 2 * share * square * tokens / flops_a_us);
    return std::max(submit_us, whole * static_cast<double>(s.outputs) / static_cast<double>(outputs));
  };
}

exec::LinearTime npu_time(index outputs, index inputs, Order order) {
  const double share = static_cast<double>(outputs * inputs) / square;
  const double tall = static_cast<double>(outputs) / static_cast<double>(inputs);
  double one = measured_factor(outputs, inputs, true, true), many = measured_factor(outputs, inputs, false, true);
  if (one == 0) one = 1;
  // Shape: what 4096 x 14336 was measured to take. Order: 6 times, section 3.2 and figure 4.
  if (many == 0) many = by_ratio(1 / tall, measured_factor(4096, 14336, false, true));
  if (order == Order::given) many *= by_ratio(tall, 6);
  return [=](const exec::LinearShape& s) {
    const index rows = (s.tokens + array - 1) / array * array;
    const double whole = npu_square_us(static_cast<double>(rows)) * share * (s.tokens == 1 ? one : many);
    return whole * static_cast<double>(s.outputs) / static_cast<double>(outputs);
  };
}

}  // namespace inlay::tools
