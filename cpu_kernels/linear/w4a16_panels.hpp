// Some panels of the packed weight side by side: their codes step by step, their scales and offsets group by group.
#pragma once

#include "cpu_kernels/linear/w4a16_weight.hpp"
#include "cpu_kernels/simd/opaque.hpp"
#include "cpu_kernels/simd/unroll.hpp"

namespace inlay::cpu {

// What is asked for ahead of its use, in a panel's codes and in its groups. Each stream is short (896 inputs:
// 7 KiB a panel, 896 bytes of scales) and the hardware's own prefetchers lose it at its end: there the
// beginning of the panel is asked for that the stream goes on with. Zen 4, 896 inputs, groups of 32: 17 GB/s
// a thread without the groups, 19.6 with them.
//
// One panel by itself is one stream, and what follows a panel is the next one: four times as far is better (cuts.hpp).
inline constexpr index w4_prefetch = 2048, w4_prefetch_of_one = 8192;  // bytes
inline constexpr index w4_prefetch_groups = 16, w4_prefetch_groups_of_one = 64;
inline constexpr index w4_prefetch_super_blocks = 2, w4_prefetch_super_blocks_of_one = 8;

// The registers of P panels, from `first` on: v of them a panel. Where fewer than P are left the last
// one is read again, and its results are not stored.
template <class Level, int P> struct Panels {
  using F = simd::Floats<Level>;
  static constexpr int in_panel = static_cast<int>(w4_panel / F::size), count = P * in_panel;
  static constexpr index usual_groups_ahead = P == 1 ? w4_prefetch_groups_of_one : w4_prefetch_groups;
  static constexpr index super_blocks_ahead = P == 1 ? w4_prefetch_super_blocks_of_one : w4_prefetch_super_blocks;
  const std::uint8_t* codes[P];
  index scales[P];  // where a panel's begin

  INLAY_INLINE Panels(const W4Weight& w, index first, index groups_ahead = usual_groups_ahead)
      : groups_ahead_(groups_ahead) {
    simd::unroll<P>([&](auto p) INLAY_INLINE_LAMBDA {
      const index panel = first + p < w.panels ? first + p : w.panels - 1;
      codes[p] = w.codes + panel * w.steps * w.step_bytes;
      scales[p] = panel * w.groups * w4_panel;
      super_scales_[p] = panel * w.super_blocks * w4_panel;
    });
  }
  // `distance` further than `at` of a panel's `length`; past its end, in the panel that is P further.
  static INLAY_INLINE index further(index distance, index at, index length) {
    return at + distance < length ? distance : distance + (P - 1) * length;
  }
  // Register v's words of the step that begins at byte `at` of each panel.
  INLAY_INLINE const std::uint8_t* words(int v, index at) const {
    return codes[v / in_panel] + at + v % in_panel * words_bytes;
  }
  // Those at byte `ahead` are asked for meanwhile.
  template <int Locality, simd::Codes Kind>
  INLAY_INLINE simd::StepWords<Level, Kind> load(int v, index at, index ahead) const {
    if (v % in_panel == 0) ask_for<Locality, Kind>(words(v, ahead));
    return simd::load_words<Level, Kind>(words(v, at), v % in_panel);
  }
  // Those of all registers.
  template <int Locality, simd::Codes Kind>
  INLAY_INLINE void load_step(index at, index ahead, simd::StepWords<Level, Kind> (&to)[count]) const {
    simd::unroll<P>([&](auto p) INLAY_INLINE_LAMBDA {
      const std::uint8_t* const from = of_panel(codes[p] + at);
      ask_for<Locality, Kind>(codes[p] + ahead);
      simd::unroll<in_panel>([&](auto i) INLAY_INLINE_LAMBDA {
        to[p * in_panel + i] = simd::load_words<Level, Kind>(from + i * words_bytes, i);
      });
    });
  }
  // emit(v, scale) of group g.
  template <class Emit> INLAY_INLINE void for_each_plain_scale(const W4Weight& w, index g, Emit&& emit) const {
    const index ahead = further(groups_ahead_, g, w.groups) * w4_panel;
    with_scale(w, g, [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA {
      simd::unroll<P>([&](auto p) INLAY_INLINE_LAMBDA {
        const S* const from = panel_ahead(w.scales.as<S>(), p, g, ahead);
        simd::unroll<in_panel>([&](auto i) INLAY_INLINE_LAMBDA {
          const int v = p * in_panel + i;
          emit(v, load_in(unit_scales_, from, v, i));
        });
      });
    });
  }
  // emit(v, scale, offset) of group g: w[n,s] = q[n,s] * scale + offset. One choice of types for all
  // registers, and neither in an array: filling arrays with zeros took as long as 32 slots of codes. Types
  // that no checkpoint has together do go through one, and leave the kernels a third of their size.
  template <class Emit> INLAY_INLINE void for_each_scale(const W4Weight& w, index g, Emit&& emit) const {
    const index ahead = further(groups_ahead_, g, w.groups) * w4_panel;
    with_scale(w, g, [&]<class S>(Type<S>) INLAY_INLINE_LAMBDA {
      const auto emit_all = [&](auto offsets_of) INLAY_INLINE_LAMBDA {
        simd::unroll<P>([&](auto p) INLAY_INLINE_LAMBDA {
          const S* const from = panel_ahead(w.scales.as<S>(), p, g, ahead);
          const auto offset = offsets_of(p);
          simd::unroll<in_panel>([&](auto i) INLAY_INLINE_LAMBDA {
            const int v = p * in_panel + i;
            const F scale = load_in(unit_scales_, from, v, i);
            emit(v, scale, offset(i, scale));
          });
        });
      };
      if (w.symmetric()) {
        emit_all([&](int) INLAY_INLINE_LAMBDA {
          return [&](int, F scale) INLAY_INLINE_LAMBDA { return F(-w.middle) * scale; };
        });
      } else if (w.with_zeros && w.zeros.dtype == DType::u8) {
        emit_all([&](int p) INLAY_INLINE_LAMBDA {
          const std::uint8_t* const zeros = panel_ahead(w.zeros.as<std::uint8_t>(), p, g, ahead);
          return [=](int i, F scale) INLAY_INLINE_LAMBDA { return F(-1) * F::load(zeros + i * F::size) * scale; };
        });
      } else if (w.with_offsets && w.offsets.dtype == w.scales.dtype) {
        emit_all([&](int p) INLAY_INLINE_LAMBDA {
          const S* const offsets = panel_ahead(w.offsets.as<S>(), p, g, ahead);
          return [=, this](int i, F)
                     INLAY_INLINE_LAMBDA { return load_in(unit_offsets_, offsets, p * in_panel + i, i); };
        });
      } else {
        float offsets[count * F::size];
        other_offsets(w, g, offsets);
        emit_all([&](int p) INLAY_INLINE_LAMBDA {
          const float* const of_p = offsets + p * in_panel * F::size;
          return [=](int i, F) INLAY_INLINE_LAMBDA { return F::load(of_p + i * F::size); };
        });
      }
    });
  }
  // Both of group g, [count][F::size].
  __attribute__((noinline)) void copy_scales(const W4Weight& w, index g, float* scale, float* offset) const {
    for_each_scale(w, g, [&](auto v, F of_v, F offset_of_v) INLAY_INLINE_LAMBDA {
      of_v.store(scale + v * F::size);
      offset_of_v.store(offset + v * F::size);
    });
  }

 private:
  static constexpr index words_bytes = 4 * F::size;
  // body(type) of the scales: i8 are in units of super-blocks, those of group g.
  template <class Body> INLAY_INLINE void with_scale(const W4Weight& w, index g, Body&& body) const {
    if (w.super_scales) {
      if (const index block = g >> w.super_shift; block != super_block_) take_units(w, block);
      body(Type<std::int8_t>{});
    } else {
      with_float(w.scales.dtype, body);
    }
  }
  // Register v of scales or offsets, at register i of a panel; i8 are in these units.
  template <class S> static INLAY_INLINE F load_in(const float* units, const S* from, int v, int i) {
    const F value = F::load(from + i * F::size);
    if constexpr (std::is_same_v<S, std::int8_t>)
      return value * F::load(units + v * F::size);
    else
      return value;
  }
  // Once for the groups of a super-block, of which there are eight or sixteen: each of them widening its units for
  // itself made one row with int8 activations 10% slower (AVX-512 without VNNI).
  __attribute__((noinline)) void take_units(const W4Weight& w, index block) const {
    super_block_ = block;
    const index ahead = further(super_blocks_ahead, block, w.super_blocks) * w4_panel;
    const auto take = [&](const f16* from, float* units) {
      for (int v = 0; v < count; ++v) {
        const f16* const at = from + super_scales_[v / in_panel] + block * w4_panel + v % in_panel * F::size;
        F::load(at).store(units + v * F::size);
        __builtin_prefetch(at + ahead, 0, 2);
      }
    };
    take(w.super_scales, unit_scales_);
    if (w.super_offsets) take(w.super_offsets, unit_offsets_);
  }
  // The lines of a step.
  template <int Locality, simd::Codes Kind> static INLAY_INLINE void ask_for(const std::uint8_t* step) {
    __builtin_prefetch(step, 0, Locality);
    if constexpr (simd::upper_bits<Kind> != 0) __builtin_prefetch(step + 4 * w4_panel, 0, Locality);
  }
  // Where the registers of a panel are loaded from. Arm's loads take a register and a number, so it stays in one: GCC
  // 12 makes an index of each of them otherwise.
  template <class T> static INLAY_INLINE const T* of_panel(const T* p) {
    if constexpr (F::size == 4)
      return simd::opaque(p);
    else
      return p;
  }
  INLAY_INLINE index place(int v, index g) const {
    return scales[v / in_panel] + g * w4_panel + v % in_panel * F::size;
  }
  // Panel p's values of group g; those `ahead` are asked for meanwhile.
  template <class T> INLAY_INLINE const T* panel_ahead(const T* values, int p, index g, index ahead) const {
    const T* const from = of_panel(values + place(p * in_panel, g));
    __builtin_prefetch(from + ahead, 0, 2);
    return from;
  }
  // Zeros as floats, and offsets of another type than the scales: they are in no units.
  void other_offsets(const W4Weight& w, index g, float* offsets) const {
    const auto each = [&](auto&& offset) {
      for (int v = 0; v < count; ++v) offset(place(v, g)).store(offsets + v * F::size);
    };
    if (w.with_offsets)
      return with_float(w.offsets.dtype,
                        [&]<class O>(Type<O>) { each([&](index at) { return F::load(w.offsets.as<O>() + at); }); });
    with_float(w.zeros.dtype, [&]<class Z>(Type<Z>) {
      for_each_plain_scale(w, g, [&](int v, F scale) {
        const F offset = F(-1) * F::load(w.zeros.as<Z>() + place(v, g)) * scale;
        offset.store(offsets + v * F::size);
      });
    });
  }

  index groups_ahead_;
  index super_scales_[P];  // where a panel's begin
  mutable index super_block_ = -1;
  alignas(64) mutable float unit_scales_[count * F::size];  // of that one
  alignas(64) mutable float unit_offsets_[count * F::size];
};

// emit(v, codes, s): the codes of slots begin .. end, in their form, for each of the panels' registers v.
// Whole words: what lies beyond the last slot meets an x of zero. Of the words, AVX2 has registers for
// two beside eight sums, four masks and x.
template <class Level, simd::CodeForm Form, simd::Codes Kind, int P, class Emit>
INLAY_INLINE void for_each_code(const W4Weight& w, const Panels<Level, P>& panels, index begin, index end,
                                Emit&& emit) {
  using Words = simd::OpenCodes<Level, Kind>;
  const simd::CodeTable<Level, Kind> table(w.named);
  constexpr int per_word = simd::codes_of_word<Kind>, count = Panels<Level, P>::count;
  constexpr index step_bytes = w4_step_bytes(simd::bits_of<Kind>);
  constexpr int most = simd::Floats<Level>::size == 8 ? 2 : 4, open = min(count, most);
  // What a conversion limits has no time to wait for L2; the other form does better with what it needs there,
  // twice as far ahead (Zen 4, 4096 inputs: 20 GB/s a thread, into L1 18).
  constexpr bool into_l1 = Form == simd::CodeForm::converted;
  constexpr int locality = into_l1 ? 3 : 2;
  constexpr index distance = into_l1 ? w4_prefetch : 2 * w4_prefetch;
  index at = begin / per_word * step_bytes;
  for (; begin < end; begin += per_word, at += step_bytes) {
    const index ahead = at + panels.further(distance, at, w.steps * step_bytes);
    simd::unroll<count / open>([&](auto part) INLAY_INLINE_LAMBDA {
      Words word[open];
      simd::unroll<open>([&](auto i) INLAY_INLINE_LAMBDA {
        word[i] = Words(panels.template load<locality, Kind>(part * open + i, at, ahead), table);
      });
      simd::unroll<per_word>([&](auto j) INLAY_INLINE_LAMBDA {
        simd::unroll<open>([&](auto i) INLAY_INLINE_LAMBDA {
          constexpr std::integral_constant<int, part * open + i> v;
          emit(v, word[i].template code<Form, j>(), begin + j);
        });
      });
    });
  }
}

}  // namespace inlay::cpu
