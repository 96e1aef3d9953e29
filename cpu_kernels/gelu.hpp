// Bytes: x (and up) read, y written. 25 to 35 flops an element: memory is the limit outside L2.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/gelu.hpp>

#include "cpu_kernels/simd/normal_cdf.hpp"
#include "cpu_kernels/simd/sigmoid.hpp"
#include "cpu_kernels/simd/tanh.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu {

// (1 + tanh u) / 2 = sigmoid(2 u): without the sum, the negative side keeps its relative accuracy.
template <GeluForm form, class F> INLAY_INLINE F gelu_factor(F x) {
  constexpr float two_root_2_over_pi = 1.5957691216f;
  if constexpr (form == GeluForm::erf) return simd::normal_cdf(x);
  if constexpr (form == GeluForm::tanh)
    return simd::sigmoid(F(two_root_2_over_pi) * x * fma(F(0.044715f) * x, x, F(1.0f)));
  return simd::sigmoid(F(1.702f) * x);
}

// The operator's numbers. Each row has its own copy: what it writes could otherwise be one of them.
struct GeluNumbers {
  float cap, alpha_p, alpha_n, beta, slope, eps;
};

// e^min(x, eps) - 1 = 2 t / (1 - t) with t = tanh(min(x, eps) / 2) <= 0: nothing cancels.
template <class F> INLAY_INLINE F xielu_below_zero(F x, const GeluNumbers& of) {
  const F t = simd::tanh(F(0.5f) * min(F(of.eps), x));
  return fma(F(of.alpha_n), (t + t) / (F(1.0f) - t), F(of.slope) * x);
}

// g(x) * up. A square is multiplied in halves: it may be beyond f32 where its product with `up` is not.
template <GeluForm form, class F> INLAY_INLINE F gated(F x, F up, const GeluNumbers& of) {
  if constexpr (form == GeluForm::softcap) return F(of.cap) * simd::tanh(x / F(of.cap)) * up;
  if constexpr (form == GeluForm::xielu) {
    const F one(1.0f);
    const auto positive = F() < x;
    return select(positive, fma(F(of.alpha_p), x, F(of.beta)), xielu_below_zero(x, of)) * up * select(positive, x, one);
  }
  if constexpr (form == GeluForm::relu_squared) {
    const F positive = select(x < F(), F(), x);  // NaN stays
    return positive * up * positive;
  }
  return x * gelu_factor<form>(x) * up;
}

template <class Level, GeluForm form, class T>
void gelu_row(GeluNumbers of, const T* x, const T* up, T* y, index begin, index end) {
  using F = simd::Floats<Level>;
  registers<F>(begin, end, [&](index i, auto n) {
    store(gated<form>(load<F>(x + i, n), up == nullptr ? F(1.0f) : load<F>(up + i, n), of), y + i, n);
  });
}

template <class Level> Status gelu(const Parallel& parallel, const Gelu<Host>& op) {
  const GeluNumbers of{op.cap, op.alpha_p, op.alpha_n, op.beta, xielu_slope(op), op.eps};
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    constexpr Work element{.bytes = 3 * sizeof(T), .operations = 40};
    row_pieces(parallel, op.x.extents[0], op.x.extents[1], element, [&](index t, index begin, index end) {
      const T* x = row_of<T>(op.x, t);
      const T* up = op.up.present() ? row_of<T>(op.up, t) : nullptr;
      T* y = row_of<T>(op.y, t);
      switch (op.form) {
        case GeluForm::erf: return gelu_row<Level, GeluForm::erf>(of, x, up, y, begin, end);
        case GeluForm::tanh: return gelu_row<Level, GeluForm::tanh>(of, x, up, y, begin, end);
        case GeluForm::quick: return gelu_row<Level, GeluForm::quick>(of, x, up, y, begin, end);
        case GeluForm::relu_squared: return gelu_row<Level, GeluForm::relu_squared>(of, x, up, y, begin, end);
        case GeluForm::softcap: return gelu_row<Level, GeluForm::softcap>(of, x, up, y, begin, end);
        case GeluForm::xielu: return gelu_row<Level, GeluForm::xielu>(of, x, up, y, begin, end);
      }
    });
  });
  return {};
}

template <> struct Kernels<Gelu<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Gelu<Host>& op, Workspace) {
    return gelu<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Gelu<Host>&) { return 0; }
};

}  // namespace inlay::cpu
