// Four passes over a row, which stays in L1/L2 between them, so that memory sees one read and one write: the mean, what
// rounding left of it, the variance, the result. Bytes: read x, write y (and residual both ways); 12 flops an element.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/layer_norm.hpp>

#include <limits>

#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

// The sum of value(i, n) over a row, n being All or the count of a part of a register.
template <class F, class Value> INLAY_INLINE float sum_of_row(index dim, Value&& value) {
  F sum[4];  // four chains hide the latency of the sum
  index i = 0;
  for (; i + 4 * F::size <= dim; i += 4 * F::size)
    for (int k = 0; k < 4; ++k) sum[k] = sum[k] + value(i + k * F::size, All{});
  registers<F>(i, dim, [&](index k, auto n) {
    if constexpr (std::is_same_v<decltype(n), All>)
      sum[0] = sum[0] + value(k, n);
    else
      sum[0] = sum[0] + select(F::first(n), value(k, n), F());
  });
  return reduce_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// r - mean as (r - center) - rest: the center is the mean as f32 has it, the rest what its sum was off by. The first
// difference of a row of large mean is exact (Sterbenz), and the rest is a mean of small numbers.
struct Centered {
  float center, rest, inverse;  // 1 / sqrt(variance + eps)

  template <class F> INLAY_INLINE F of(F r) const { return (r - F(center)) - F(rest); }
};

// The same of a row whose sums or squares are beyond f32, or below what it holds: of r * before, and times `behind`.
struct Rescaled {
  float before, behind, center, rest, inverse;

  template <class F> INLAY_INLINE F of(F r) const { return (r * F(before) - F(center)) * F(behind) - F(rest); }
};

// A mean that is not finite gives NaN: infinity would make the rest of its row zeros.
INLAY_INLINE float inverse_deviation(float variance) {
  return variance < std::numeric_limits<float>::infinity() ? 1 / __builtin_sqrtf(variance) : __builtin_nanf("");
}

// Fills all but the center; gives variance + eps.
template <class Level, class Row, class T> INLAY_INLINE float take_moments(Row& row, const T* r, index dim, float eps) {
  using F = simd::Floats<Level>;
  const auto mean_of = [&](auto&& value) {
    return sum_of_row<F>(dim, [&](index i, auto n) { return value(row.of(load<F>(r + i, n))); }) /
           static_cast<float>(dim);
  };
  row.rest = 0;
  row.rest = mean_of([](F v) { return v; });
  const float variance = mean_of([](F v) { return v * v; }) + eps;
  row.inverse = inverse_deviation(variance);
  return variance;
}

// Squares of r * 2^-80 are within f32 where those of r are beyond it, and those of differences * 2^96 where they are
// below. Such differences do not leave it: they were less than 2^-50 times the root of dim.
template <class Level, class T>
[[gnu::noinline]] Rescaled rescaled(const T* r, index dim, float eps, float center, bool small) {
  using F = simd::Floats<Level>;
  Rescaled row{.before = 1, .behind = 0x1p96f, .center = center, .rest = 0, .inverse = 0};
  if (!small) {
    row.before = 0x1p-80f, row.behind = 1;
    row.center = sum_of_row<F>(dim, [&](index i, auto n) { return load<F>(r + i, n) * F(row.before); }) /
                 static_cast<float>(dim);
  }
  const float power = row.before * row.behind;
  take_moments<Level>(row, r, dim, eps * power * power);
  return row;
}

template <class Level, class T, class W> struct LayerNormRow {
  using F = simd::Floats<Level>;
  const W *weight, *bias;
  index dim;
  float eps;

  void operator()(const T* x, T* residual, T* y) const {
    const float sum = sum_of_row<F>(dim, [&](index i, auto n) {
      if (residual == nullptr) return load<F>(x + i, n);
      store(load<F>(x + i, n) + load<F>(residual + i, n), residual + i, n);
      return load<F>(residual + i, n);  // rounded
    });
    const T* r = residual ? residual : x;
    Centered row{.center = sum / static_cast<float>(dim), .rest = 0, .inverse = 0};
    const float variance = take_moments<Level>(row, r, dim, eps);
    // Below 2^-100 it may have lost squares below 2^-126. Those of f16 neither vanish nor leave f32.
    if constexpr (!std::is_same_v<T, f16>)
      if (!(variance >= 0x1p-100f && variance < std::numeric_limits<float>::infinity()))
        return emit(rescaled<Level>(r, dim, eps, row.center, variance < 1), r, y);
    emit(row, r, y);
  }

  template <class Row> INLAY_INLINE void emit(const Row& row, const T* r, T* y) const {
    registers<F>(0, dim, [&](index i, auto n) {
      F v = row.of(load<F>(r + i, n)) * F(row.inverse);
      if (weight != nullptr) v = v * load<F>(weight + i, n);
      if (bias != nullptr) v = v + load<F>(bias + i, n);
      store(v, y + i, n);
    });
  }
};

template <class Level> Status layer_norm(const Parallel& parallel, const LayerNorm<Host>& op) {
  const index tokens = op.x.extents[0], dim = op.x.extents[1];
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    with_float(op.weight.present() ? op.weight.dtype
               : op.bias.present() ? op.bias.dtype
                                   : DType::f32,
               [&]<class W>(Type<W>) {
                 if constexpr (std::is_same_v<W, float> || std::is_same_v<W, T>) {
                   const LayerNormRow<Level, T, W> row{op.weight.present() ? op.weight.template as<W>() : nullptr,
                                                       op.bias.present() ? op.bias.template as<W>() : nullptr, dim,
                                                       op.eps};
                   const Work work = static_cast<double>(tokens * dim) * Work{.bytes = 4 * sizeof(T), .operations = 12};
                   parallel.ranges(tokens, 1, work, [&](index begin, index end) {
                     for (index t = begin; t < end; ++t)
                       row(row_of<T>(op.x, t), op.residual.present() ? row_of<T>(op.residual, t) : nullptr,
                           row_of<T>(op.y, t));
                   });
                 }
               });
  });
  return {};
}

template <> struct Kernels<LayerNorm<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const LayerNorm<Host>& op, Workspace) {
    return layer_norm<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const LayerNorm<Host>&) { return 0; }
};

}  // namespace inlay::cpu
