// The packed weight as the kernels read it: group by group, step by step.
//
// Slots are cut into blocks of 256, and each block into segments that have one scale a channel:
//
//   blocks    |        256        |        256        |    rest   |
//   groups    |  g0   |    g1    |    g2    |    g3    |    g4    |
//   segments  |  g0   |    g1  |g1|   g2   ...
//
// Sums start at zero with each block and are added to the total at its end: the chain of roundings is
// 256 + k / 256 long instead of k, and it is the same for every number of rows and threads.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include "cpu_kernels/dtypes.hpp"
#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::cpu {

inline constexpr index w4_block = 256;
inline constexpr index w4_prefetch = 2048;  // bytes ahead in a panel's codes

struct W4Weight {
  const std::uint8_t* codes;
  ConstView<3> scales, zeros, offsets;
  index panels, slots, steps, group, groups;
  float middle;  // the zero point where none is given

  INLAY_INLINE explicit W4Weight(const LinearW4a16<Host>& op)
      : codes(op.codes.as<std::uint8_t>()),
        scales(op.scales),
        zeros(op.zeros),
        offsets(op.offsets),
        panels(op.codes.extents[0]),
        slots(op.slots()),
        steps(op.codes.extents[1]),
        group(op.group == 0 ? slots : op.group),
        groups(op.scales.extents[1]),
        middle(static_cast<float>(1 << (op.bits - 1))) {}

  INLAY_INLINE index block_end(index begin) const { return begin + w4_block < slots ? begin + w4_block : slots; }
};

// body(begin, end, g) for each segment of the block begin .. end.
template <class Body> INLAY_INLINE void for_each_segment(index begin, index end, index group, Body&& body) {
  index g = begin / group;
  while (begin < end) {
    const index group_end = (g + 1) * group, stop = group_end < end ? group_end : end;
    body(begin, stop, g++);
    begin = stop;
  }
}

// The registers of P panels, from `first` on: v of them a panel. Where fewer than P are left the last
// one is read again, and its results are not stored.
template <class Level, int P> struct Panels {
  using F = simd::Floats<Level>;
  static constexpr int in_panel = static_cast<int>(w4_panel / F::size), count = P * in_panel;
  index at[P];

  INLAY_INLINE Panels(const W4Weight& w, index first) {
    for (int p = 0; p < P; ++p) at[p] = first + p < w.panels ? first + p : w.panels - 1;
  }
  INLAY_INLINE const std::uint8_t* words(const W4Weight& w, int v, index step) const {
    return w.codes + ((at[v / in_panel] * w.steps + step) * w4_panel + v % in_panel * F::size) * 4;
  }
  INLAY_INLINE simd::CodeWords<Level> load(const W4Weight& w, int v, index step) const {
    const std::uint8_t* p = words(w, v, step);
    if (v % in_panel == 0) __builtin_prefetch(p + w4_prefetch);
    return simd::CodeWords<Level>::load(p);
  }
  // w[n,s] = q[n,s] * scale + offset in group g.
  INLAY_INLINE void load_group(const W4Weight& w, index g, F* scale, F* offset) const {
    const auto place = [&](int v) INLAY_INLINE_LAMBDA {
      return (at[v / in_panel] * w.groups + g) * w4_panel + v % in_panel * F::size;
    };
    with_float(w.scales.dtype, [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA {
      simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { scale[v] = F::load(w.scales.as<S>() + place(v)); });
    });
    if (w.offsets.present()) {
      with_float(w.offsets.dtype, [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA {
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { offset[v] = F::load(w.offsets.as<S>() + place(v)); });
      });
      return;
    }
    if (!w.zeros.present()) {
      simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { offset[v] = F(-w.middle) * scale[v]; });
      return;
    }
    const auto subtract = [&]<class Z>(Type<Z>) INLAY_INLINE_LAMBDA {
      simd::unroll<count>(
          [&](auto v) INLAY_INLINE_LAMBDA { offset[v] = F(-1) * F::load(w.zeros.as<Z>() + place(v)) * scale[v]; });
    };
    if (w.zeros.dtype == DType::u8)
      subtract(Type<std::uint8_t>{});
    else
      with_float(w.zeros.dtype, subtract);
  }
};

// emit(v, weights, s) for the registers of the panels at each slot s of a block, in order; v is a
// constant: Panels<Level, P>::count registers for each slot.
template <class Level, int Bits, int P, class Emit>
INLAY_INLINE void for_each_weight(const W4Weight& w, const Panels<Level, P>& panels, index begin, index end,
                                  Emit&& emit) {
  using F = simd::Floats<Level>;
  constexpr int per_word = 32 / Bits, count = Panels<Level, P>::count;
  for_each_segment(begin, end, w.group, [&](index s, index stop, index g) INLAY_INLINE_LAMBDA {
    F scale[count], offset[count];
    panels.load_group(w, g, scale, offset);
    const auto step = [&](auto whole) INLAY_INLINE_LAMBDA {
      simd::CodeWords<Level> words[count];
      simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA { words[v] = panels.load(w, v, s / per_word); });
      simd::unroll<per_word>([&](auto j) INLAY_INLINE_LAMBDA {
        if (!decltype(whole)::value && s + j >= stop) return;
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA {
          emit(v, fma(words[v].template code<Bits, j>(), scale[v], offset[v]), s + j);
        });
      });
    };
    for (; s + per_word <= stop; s += per_word) step(std::true_type{});
    if (s < stop) step(std::false_type{});
  });
}

// y[t, channel ..] = total + bias, for the channels that exist.
template <class Level>
void w4_store(const LinearW4a16<Host>& op, index t, index channel, index count, const float* total) {
  using F = simd::Floats<Level>;
  const index n = op.y.extents[1];
  const index end = channel + count < n ? channel + count : n;
  with_float(op.y.dtype, [&]<class T>(Type<T>) {
    T* y = op.y.as<T>() + t * op.y.strides[0];
    with_float(op.bias.dtype, [&]<class B>(Type<B>) {
      for (index c = channel; c < end; c += F::size, total += F::size) {
        const index left = end - c < F::size ? end - c : F::size;
        F value = F::load(total);
        if (op.bias.present()) value = value + F::load(op.bias.as<B>() + c, left);
        value.store(y + c, left);
      }
    });
  });
}

}  // namespace inlay::cpu
