// Functions of one element.
//
//   log    in double: m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 artanh((m - 1) / (m + 1)) by its series
//   erf    below 1 an odd polynomial, from there on 1 - erfc by the tail of the normal distribution
//   exp, tanh   core/elementary.hpp, of one float: the same bits on every host
#include <bit>

#include <inlay/core/elementary.hpp>

#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

float log_of(float x) {
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
  const double wide = x;
  const auto bits = std::bit_cast<std::uint64_t>(wide);
  const std::int64_t exponent = static_cast<std::int64_t>(bits - sqrt_half) >> 52;
  const double m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(exponent) << 52));
  const double s = (m - 1) / (m + 1), z = s * s;
  double series = 1.0 / 11;
  for (const double term : {1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0}) series = series * z + term;
  const auto result = static_cast<float>(static_cast<double>(exponent) * 0.693147180559945309417 + 2 * s * series);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  if (x == 0) return -infinity;
  return x > 0 && x < infinity ? result : x == infinity ? x : std::numeric_limits<float>::quiet_NaN();
}

float erf_of(float x) {
  const float magnitude = std::min(std::fabs(x), 6.0f), square = magnitude * magnitude;
  float p = 1.058938096e-06f;  // of erf(x) / x - 1 at Chebyshev's nodes in x^2: 1.2 ulp with the roundings
  for (const float term : {-1.390933994e-05f, 1.195656223e-04f, -8.542637806e-04f, 5.223783664e-03f, -2.686613239e-02f,
                           1.128379107e-01f, -3.761263788e-01f, 1.283791661e-01f})
    p = p * square + term;
  const float near = p * x + x;
  const float tail = 2 * (elementary::exp(-square) * elementary::scaled_tail(magnitude * 1.41421356237f));
  const float far = std::copysign(1 - tail, x);
  return magnitude < 1 ? near : far;
}

template <class F> void apply(const Tile& dst, const Tile& a, F&& f) {
  float x[piece];
  for_blocks(dst.form, [&](const Block& block) {
    load(a, block, x);
    for (index i = 0; i < block.count(); ++i) x[i] = f(x[i]);
    store(dst, block, x);
  });
}

}  // namespace

void unary(VectorOp op, const Tile& dst, const Tile& a) {
  switch (op) {
    case VectorOp::exp: return apply(dst, a, [](float x) { return elementary::exp(x); });
    case VectorOp::log: return apply(dst, a, log_of);
    case VectorOp::sqrt: return apply(dst, a, [](float x) { return std::sqrt(x); });
    case VectorOp::rsqrt: return apply(dst, a, [](float x) { return 1 / std::sqrt(x); });
    case VectorOp::recip: return apply(dst, a, [](float x) { return 1 / x; });
    case VectorOp::tanh: return apply(dst, a, [](float x) { return elementary::tanh(x); });
    case VectorOp::erf: return apply(dst, a, erf_of);
    default: return apply(dst, a, [](float x) { return std::fabs(x); });
  }
}

}  // namespace inlay::npu::tiles
