// The packed weight as the kernels read it: group by group, step by step.
//
// Slots are cut into blocks of 128, and each block into segments that have one scale a channel:
//
//   blocks    |        128        |        128        |    rest   |
//   groups    |  g0   |    g1    |    g2    |    g3    |    g4    |
//   segments  |  g0   |    g1  |g1|   g2   ...
//
// A segment's codes are multiplied as they are; its scale and offset follow once:
//
//   total[n] += scale[n,g] * sum_s(x[s] * q[n,s]) + offset[n,g] * sum_s(x[s])
//
// so that a code costs a mask, a conversion and an fma. The chain of roundings is a segment and the
// number of segments long, and it is the same for every number of rows and threads.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include "cpu_kernels/dtypes.hpp"
#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::cpu {

inline constexpr index w4_block = 128;
inline constexpr index w4_prefetch = 2048;  // bytes ahead in a panel's codes

struct W4Weight {
  const std::uint8_t* codes;
  const std::int32_t* perm;  // or null: slots are inputs
  ConstView<3> scales, zeros, offsets;
  index panels, slots, steps, group, groups;
  float middle;  // the zero point where none is given

  INLAY_INLINE explicit W4Weight(const LinearW4a16<Host>& op)
      : codes(op.codes.as<std::uint8_t>()),
        perm(op.perm.present() ? op.perm.as<std::int32_t>() : nullptr),
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

// At most: every block cuts one group in two.
INLAY_INLINE index w4_segments(index slots, index groups) { return (slots + w4_block - 1) / w4_block + groups; }

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
  INLAY_INLINE simd::CodeWords<Level> load(const W4Weight& w, int v, index step) const {
    const std::uint8_t* p = w.codes + ((at[v / in_panel] * w.steps + step) * w4_panel + v % in_panel * F::size) * 4;
    if (v % in_panel == 0) __builtin_prefetch(p + w4_prefetch);
    return simd::CodeWords<Level>::load(p);
  }
  // emit(v, scale, offset) of group g: w[n,s] = q[n,s] * scale + offset. One switch for all registers,
  // and none of them in an array: filling arrays with zeros took as long as 32 slots of codes.
  template <class Emit> INLAY_INLINE void for_each_scale(const W4Weight& w, index g, Emit&& emit) const {
    const auto place = [&](int v) INLAY_INLINE_LAMBDA {
      return (at[v / in_panel] * w.groups + g) * w4_panel + v % in_panel * F::size;
    };
    with_float(w.scales.dtype, [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA {
      const S* scales = w.scales.as<S>();
      if (w.offsets.present() || w.zeros.present())
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA {
          const F scale = F::load(scales + place(v));
          emit(v, scale, offset(w, place(v), scale));
        });
      else
        simd::unroll<count>([&](auto v) INLAY_INLINE_LAMBDA {
          const F scale = F::load(scales + place(v));
          emit(v, scale, F(-w.middle) * scale);
        });
    });
  }

 private:
  static INLAY_INLINE F offset(const W4Weight& w, index at, F scale) {
    if (w.offsets.present())
      return with_float(w.offsets.dtype,
                        [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA { return F::load(w.offsets.as<S>() + at); });
    if (w.zeros.dtype == DType::u8) return F(-1) * F::load(w.zeros.as<std::uint8_t>() + at) * scale;
    return with_float(w.zeros.dtype, [&]<class Z>(Type<Z>)
                                         INLAY_INLINE_LAMBDA { return F(-1) * F::load(w.zeros.as<Z>() + at) * scale; });
  }
};

// emit(v, codes, s): the codes of slots begin .. end, in place, for each of the panels' registers v.
// Whole words: what lies beyond the last slot meets an x of zero. Of the words, AVX2 has registers for
// two beside eight sums, four masks and x.
template <class Level, int Bits, int P, class Emit>
INLAY_INLINE void for_each_code(const W4Weight& w, const Panels<Level, P>& panels, index begin, index end,
                                Emit&& emit) {
  using Words = simd::CodeWords<Level>;
  constexpr int per_word = 32 / Bits, count = Panels<Level, P>::count;
  constexpr int most = simd::Floats<Level>::size == 8 ? 2 : 4, open = count < most ? count : most;
  constexpr index step_bytes = 4 * w4_panel;
  const std::uint8_t* words[P];
  for (int p = 0; p < P; ++p) words[p] = w.codes + (panels.at[p] * w.steps + begin / per_word) * step_bytes;
  const index bytes = (end - begin + per_word - 1) / per_word * step_bytes;
  // The last of a panel asks for the first of the panel that this stream reads next, P further on: at 896
  // inputs (7 KiB a panel, Zen 4) one thread reads 12.4 GB/s instead of 11.0.
  const index panel_bytes = w.steps * step_bytes, left = panel_bytes - begin / per_word * step_bytes - w4_prefetch;
  for (index byte = 0; byte < bytes; byte += step_bytes, begin += per_word) {
    const index ahead = byte < left ? w4_prefetch : w4_prefetch + (P - 1) * panel_bytes;
    simd::unroll<count / open>([&](auto part) INLAY_INLINE_LAMBDA {
      Words word[open];
      simd::unroll<open>([&](auto i) INLAY_INLINE_LAMBDA {
        constexpr int in_panel = Panels<Level, P>::in_panel;
        const int v = part * open + i;
        const std::uint8_t* from = words[v / in_panel] + byte + v % in_panel * (step_bytes / in_panel);
        if (v % in_panel == 0) __builtin_prefetch(from + ahead);
        word[i] = Words::load(from);
      });
      simd::unroll<per_word>([&](auto j) INLAY_INLINE_LAMBDA {
        simd::unroll<open>([&](auto i) INLAY_INLINE_LAMBDA {
          emit(part * open + i, word[i].template in_place<Bits, j>(), begin + j);
        });
      });
    });
  }
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
