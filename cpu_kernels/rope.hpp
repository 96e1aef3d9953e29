// Bytes of Rope: x read, y written (in place: the same lines), and 8 bytes a pair of the table for all
// heads. 6 flops a pair: memory is the limit outside L2. RopeTable is computed once a forward pass: 4
// bytes written and some 40 flops in double a number.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/rope.hpp>

#include <cstring>

#include "cpu_kernels/simd/sincos.hpp"
#include "cpu_kernels/support/elementwise.hpp"
#include "cpu_kernels/support/kernels.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

// Entry i of a list of ids: the switch is per entry, since there are few.
INLAY_INLINE index id_at(const void* list, DType type, index i) {
  return type == DType::i64 ? static_cast<const std::int64_t*>(list)[i] : static_cast<const std::int32_t*>(list)[i];
}

// The angles of a token, eight at a time. Angles beyond the reach of the fast reduction go to libm.
template <class Level> void rope_table_row(const RopeTable<Host>& op, index t) {
  constexpr index width = simd::sincos_width;
  const index pairs = op.inv_freq.extents[1];
  const float* high = row_of<float>(op.inv_freq, 0);
  const float* low = op.inv_freq.extents[0] == 2 ? row_of<float>(op.inv_freq, 1) : nullptr;
  float *cos = row_of<float>(op.cos, t), *sin = row_of<float>(op.sin, t);
  for (index i = 0; i < pairs; i += width) {
    const index n = min(pairs - i, width);
    double angle[width] = {}, sine[width], cosine[width];
    bool far = false;
    for (index k = 0; k < n; ++k) {
      const index axis = op.axis.present() ? *row_of<std::int32_t>(op.axis, i + k) : 0;
      const index where = axis * op.positions.strides[0] + t * op.positions.strides[1];
      const double frequency = low ? static_cast<double>(high[i + k]) + low[i + k] : static_cast<double>(high[i + k]);
      angle[k] = static_cast<double>(id_at(op.positions.data, op.positions.dtype, where)) * frequency;
      far |= !(__builtin_fabs(angle[k]) < simd::sincos_reach);
    }
    simd::sincos(angle, sine, cosine);
    for (index k = 0; far && k < n; ++k) {
      sine[k] = __builtin_sin(angle[k]);
      cosine[k] = __builtin_cos(angle[k]);
    }
    for (index k = 0; k < n; ++k) {
      cos[i + k] = static_cast<float>(op.magnitude * cosine[k]);
      sin[i + k] = static_cast<float>(op.magnitude * sine[k]);
    }
  }
}

template <class Level> Status rope_table(const Parallel& parallel, const RopeTable<Host>& op) {
  constexpr index tokens_a_task = 16;
  const Work work = static_cast<double>(op.cos.size()) * Work{.bytes = 16, .operations = 100};
  parallel.ranges(op.cos.extents[0], tokens_a_task, work, [&](index begin, index end) {
    for (index t = begin; t < end; ++t) rope_table_row<Level>(op, t);
  });
  return {};
}

// One head. Both elements of a pair are loaded before either is stored: y may be x.
template <class Level, class T, class C> void rope_half(const T* x, const C* cos, const C* sin, T* y, index pairs) {
  using F = simd::Floats<Level>;
  registers<F>(0, pairs, [&](index i, auto n) {
    const F a = load<F>(x + i, n), b = load<F>(x + pairs + i, n), c = load<F>(cos + i, n), s = load<F>(sin + i, n);
    store(a * c - b * s, y + i, n);
    store(a * s + b * c, y + pairs + i, n);
  });
}

template <class Level, class T, class C>
void rope_interleaved(const T* x, const C* cos, const C* sin, T* y, index pairs) {
  using F = simd::Floats<Level>;
  const auto rotate = [&](F first, F second, F c, F s) {
    const auto [a, b] = deinterleave(first, second);
    return interleave(a * c - b * s, a * s + b * c);
  };
  index i = 0;
  for (; i + F::size <= pairs; i += F::size) {
    const auto turned = rotate(F::load(x + 2 * i), F::load(x + 2 * i + F::size), F::load(cos + i), F::load(sin + i));
    turned.first.store(y + 2 * i);
    turned.second.store(y + 2 * i + F::size);
  }
  if (i == pairs) return;
  const index left = pairs - i, first = min(2 * left, F::size), second = 2 * left - first;
  const auto turned = rotate(F::load(x + 2 * i, first), second ? F::load(x + 2 * i + F::size, second) : F(),
                             F::load(cos + i, left), F::load(sin + i, left));
  turned.first.store(y + 2 * i, first);
  if (second) turned.second.store(y + 2 * i + F::size, second);
}

template <class Level, class T, class C> void rope_token(const Rope<Host>& op, index t) {
  const index row =
      op.positions.present() ? id_at(op.positions.data, op.positions.dtype, t * op.positions.strides[0]) : t;
  const C *cos = row_of<C>(op.cos, row), *sin = row_of<C>(op.sin, row);
  const index pairs = op.cos.extents[1], rest = op.first + 2 * pairs;
  for (index h = 0; h < op.x.extents[1]; ++h) {
    const T* x = op.x.template as<T>() + offset(op.x, t, h, 0);
    T* y = op.y.template as<T>() + offset(op.y, t, h, 0);
    if (x != y) {
      std::memcpy(y, x, static_cast<std::size_t>(op.first) * sizeof(T));
      std::memcpy(y + rest, x + rest, static_cast<std::size_t>(op.x.extents[2] - rest) * sizeof(T));
    }
    if (op.interleaved)
      rope_interleaved<Level>(x + op.first, cos, sin, y + op.first, pairs);
    else
      rope_half<Level>(x + op.first, cos, sin, y + op.first, pairs);
  }
}

template <class Level> Status rope(const Parallel& parallel, const Rope<Host>& op) {
  const index grain = elementwise_grain / (op.x.extents[1] * op.x.extents[2] + 1) + 1;
  with_float(op.x.dtype, [&]<class T>(Type<T>) {
    const Work work = static_cast<double>(op.x.size()) * Work{.bytes = 2 * sizeof(T), .operations = 4};
    parallel.ranges(op.x.extents[0], grain, work, [&](index begin, index end) {
      for (index t = begin; t < end; ++t)
        op.cos.dtype == DType::f32 ? rope_token<Level, T, float>(op, t) : rope_token<Level, T, T>(op, t);
    });
  });
  return {};
}

template <> struct Kernels<RopeTable<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const RopeTable<Host>& op, Workspace) {
    return rope_table<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const RopeTable<Host>&) { return 0; }
};

template <> struct Kernels<Rope<Host>> {
  template <class Level> static Status compute(const Parallel& parallel, const Rope<Host>& op, Workspace) {
    return rope<Level>(parallel, op);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const Rope<Host>&) { return 0; }
};

}  // namespace inlay::cpu
