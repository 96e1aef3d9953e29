// Two passes over a row: a row of 8192 floats stays in L1/L2 between them, so memory sees one read
// and one write. Bytes: read x, write y (and residual both ways); 4 flops an element.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/rms_norm.hpp>

#include <cstring>
#include <limits>

#include "cpu_kernels/simd/floats.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

// sum(v^2) of a row whose registers are value(i, n): of n elements, or All.
template <class F, class Value> INLAY_INLINE float sum_of_squares(index dim, Value&& value) {
  F sum[4];  // four chains hide the latency of fma
  index i = 0;
  for (; i + 4 * F::size <= dim; i += 4 * F::size)
    for (int k = 0; k < 4; ++k) {
      const F v = value(i + k * F::size, All{});
      sum[k] = fma(v, v, sum[k]);
    }
  registers<F>(i, dim, [&](index at, auto n) INLAY_INLINE_LAMBDA {
    const F v = value(at, n);
    sum[0] = fma(v, v, sum[0]);
  });
  return reduce_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// sum(x^2), after x += residual where there is one.
template <class Level, class T> float sum_of_squares(const T* x, T* residual, index dim) {
  using F = simd::Floats<Level>;
  return sum_of_squares<F>(dim, [&](index i, auto n) INLAY_INLINE_LAMBDA {
    if (residual == nullptr) return load<F>(x + i, n);
    store(load<F>(x + i, n) + load<F>(residual + i, n), residual + i, n);
    return load<F>(residual + i, n);
  });
}

// A mean that is not finite gives NaN: infinity would make the rest of its row zeros.
INLAY_INLINE float inverse_root(float mean) {
  return mean < std::numeric_limits<float>::infinity() ? 1 / __builtin_sqrtf(mean) : __builtin_nanf("");
}

// What a row is multiplied with, by one and then by the other, where their product may be beyond f32.
struct TwoFactors {
  float first, second;
};
template <class F> INLAY_INLINE F scaled(F v, float scale) { return v * F(scale); }
template <class F> INLAY_INLINE F scaled(F v, TwoFactors scale) { return v * F(scale.first) * F(scale.second); }

// Of a row whose squares are beyond f32, or below what it holds. Those of row * root^2 are within; half of the power
// goes to each of the factors.
template <class Level, class T> [[gnu::noinline]] TwoFactors rescaled(const T* row, index dim, float eps, float root) {
  using F = simd::Floats<Level>;
  const float power = root * root;
  const float sum = sum_of_squares<F>(dim, [&](index i, auto n) { return load<F>(row + i, n) * F(power); });
  return {root, root * inverse_root(sum / static_cast<float>(dim) + eps * power * power)};
}

// emit(1 / sqrt(mean + eps)). Below 2^-100 a mean may have lost squares below 2^-126. Those of f16 neither vanish nor
// leave f32.
template <class Level, class T, class Emit>
INLAY_INLINE auto with_inverse_rms(const T* row, float sum, index dim, float eps, Emit&& emit) {
  const float mean = sum / static_cast<float>(dim) + eps;
  if constexpr (!std::is_same_v<T, f16>)
    if (!(mean >= 0x1p-100f && mean < std::numeric_limits<float>::infinity()))
      return emit(rescaled<Level>(row, dim, eps, mean < 1 ? 0x1p48f : 0x1p-40f));
  return emit(inverse_root(mean));
}

// emit(i, n, row[i..i+n) * scale * (weight + offset)) for registers of n elements, or All, rounded to T in between
// where Llama rounds.
template <class Level, class T, class W, class Scale, class Emit>
INLAY_INLINE void scaled_row(const T* row, const W* weight, index dim, Scale scale, float offset, bool casts,
                             Emit&& emit) {
  using F = simd::Floats<Level>;
  registers<F>(0, dim, [&](index i, auto n) INLAY_INLINE_LAMBDA {
    F v = scaled(load<F>(row + i, n), scale);
    if constexpr (!std::is_same_v<T, float>) {
      if (casts) {
        T rounded[F::size];
        v.store(rounded);
        v = F::load(rounded);
      }
    }
    emit(i, n, v * (load<F>(weight + i, n) + F(offset)));
  });
}

template <class Level, class T, class W>
void rms_norm_row(const T* x, const W* weight, T* residual, T* y, index dim, float eps, float offset) {
  const float sum = sum_of_squares<Level>(x, residual, dim);
  const T* row = residual ? residual : x;
  with_inverse_rms<Level>(row, sum, dim, eps, [&](auto scale) {
    scaled_row<Level>(row, weight, dim, scale, offset, offset == 0,
                      [&](index i, auto n, simd::Floats<Level> v) INLAY_INLINE_LAMBDA { store(v, y + i, n); });
  });
}

// The scale of the codes: NaN, and the codes 0, where the row is not finite.
template <class Level, class T, class W, class Scale>
float scaled_row_i8(const T* row, const W* weight, std::int8_t* y, index dim, Scale scale, float offset) {
  using F = simd::Floats<Level>;
  F largest, not_finite;  // 0 * value is 0 for finite values only
  scaled_row<Level>(row, weight, dim, scale, offset, false, [&](index, auto, F v) INLAY_INLINE_LAMBDA {
    largest = max(largest, abs(v));
    not_finite = fma(v, F(), not_finite);
  });
  const float step = reduce_max(largest) / 127 + reduce_sum(not_finite);
  const auto write = [&](auto&& quotient) {
    scaled_row<Level>(row, weight, dim, scale, offset, false,
                      [&](index i, auto n, F v) INLAY_INLINE_LAMBDA { store_i8(quotient(v), y + i, n); });
  };
  if (step >= std::numeric_limits<float>::min())
    write([inverse = F(1 / step)](F v) { return v * inverse; });
  else if (step > 0)  // 1 / step may be infinite
    write([&](F v) { return v / F(step); });
  else if (dim > 0)  // y may be null
    std::memset(y, 0, static_cast<std::size_t>(dim));
  return step;
}

template <class Level, class T, class W>
float rms_norm_row_i8(const T* x, const W* weight, T* residual, std::int8_t* y, index dim, float eps, float offset) {
  const float sum = sum_of_squares<Level>(x, residual, dim);
  const T* row = residual ? residual : x;
  return with_inverse_rms<Level>(row, sum, dim, eps,
                                 [&](auto scale) { return scaled_row_i8<Level>(row, weight, y, dim, scale, offset); });
}

template <class Level> Status rms_norm(const Parallel& parallel, const RmsNorm<Host>& op) {
  const index dim = op.weight.extents[0];
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    with_float(op.weight.dtype, [&]<class W>(Type<W>) {
      if constexpr (std::is_same_v<W, float> || std::is_same_v<W, T>) {
        const W* weight = op.weight.template as<W>();
        const index elements = op.x.extents[0] * op.heads * dim;
        const Work work = static_cast<double>(elements) * Work{.bytes = 4 * sizeof(T), .operations = 5};
        parallel.ranges(op.x.extents[0], 1, work, [&](index begin, index end) {
          for (index t = begin; t < end; ++t) {
            const T* x = op.x.template as<T>() + t * op.x.strides[0];
            T* residual = op.residual.present() ? op.residual.template as<T>() + t * op.residual.strides[0] : nullptr;
            if (op.y.dtype == DType::i8) {
              std::int8_t* y = op.y.template as<std::int8_t>() + t * op.y.strides[0];
              op.y_scale.template as<float>()[t] =
                  rms_norm_row_i8<Level>(x, weight, residual, y, dim, op.eps, op.weight_offset);
            } else {
              T* y = op.y.template as<T>() + t * op.y.strides[0];
              for (index first = 0; first < op.heads * dim; first += dim)
                rms_norm_row<Level>(x + first, weight, residual ? residual + first : nullptr, y + first, dim, op.eps,
                                    op.weight_offset);
            }
          }
        });
      }
    });
  });
  return {};
}

template <> struct Kernels<RmsNorm<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const RmsNorm<Host>& op, Workspace) {
    return rms_norm<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const RmsNorm<Host>&) { return 0; }
};

}  // namespace inlay::cpu
