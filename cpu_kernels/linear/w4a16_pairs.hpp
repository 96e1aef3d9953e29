// int8_activations of many rows where one instruction multiplies two rows by two channels of eight slots
// (simd/int4_pairs.hpp): half as many as dot products take. Two rows' words of 4-bit codes lie side by side in a tile
// already. Sums and totals stay in pairs until the last segment; what a row adds to a total is w4_add's, so its bits
// are those of every other tile.
#pragma once

#include "cpu_kernels/linear/w4a16_bytes.hpp"
#include "cpu_kernels/linear/w4a16_scales.hpp"
#include "cpu_kernels/simd/opaque.hpp"

namespace inlay::cpu {

#if defined(__ARM_FEATURE_MATMUL_INT8)
// total[r][c] of a tile of R rows and C registers, as w4_int8_tile has them; the words of the first begin at `words`,
// and the others' lie beside them in its panel.
template <class Level, simd::Codes Kind, int R, int C, bool Offsets>
__attribute__((noinline)) void w4_int8_pairs(const W4Bytes& x, TileOfRows tile, const std::uint8_t* words,
                                             const simd::NamedBytes& named, const W4Scales& scales, index channel,
                                             float* total) {
  using F = simd::Floats<Level>;
  using Both = simd::PairFloats<Level>;
  using Inputs = simd::PairInputs<Level>;
  constexpr int pairs = R / 2;
  constexpr index size = 2 * F::size;  // of a Both
  static_assert(R % 2 == 0 && Panels<Level, 1>::count % C == 0);
  const index place = channel / F::size % Panels<Level, 1>::count;  // of the first register in its panel
  const simd::CodeTable<Level, Kind> table(named);
  const float *const step_of = x.step, *const sum_of = x.sum;
  const std::int32_t *const start_of = x.start, *const words_of = x.segment_words;
  const std::int8_t* bytes = x.words(tile);
  index at = x.of_segments(tile);  // of the segment's first row; `channel` goes along
  for (int i = 0; i < R * C; ++i) F().store(total + i * F::size);
  for (index segment = 0; segment < x.segments; ++segment) {
    simd::PairSums<Level> dots[pairs][C];
    simd::unroll<pairs>([&](auto p) INLAY_INLINE_LAMBDA {
      constexpr std::int32_t zeros[2] = {};
      const simd::PairSums<Level> start(Offsets ? zeros : start_of + at + 2 * p);
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[p][c] = start; });
    });
    const std::int8_t* const end = bytes + words_of[segment] * pairs * Inputs::bytes;
    do {  // a word of each channel
      simd::PairCodes<Level, Kind> codes[C];
      __builtin_prefetch(words + w4_prefetch, 0, 2);
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
        codes[c] =
            simd::PairCodes<Level, Kind>(simd::load_words<Level, Kind>(words + c * 4 * F::size, place + c), table);
      });
      words += w4_step_bytes(simd::bits_of<Kind>);
      simd::unroll<pairs>([&](auto p) INLAY_INLINE_LAMBDA {
        const Inputs inputs = Inputs::load(bytes + p * Inputs::bytes);
        simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { dots[p][c].add(codes[c], inputs); });
      });
      bytes += pairs * Inputs::bytes;
    } while (bytes < end);
    float* const totals = simd::opaque(total);  // or they are kept in other memory meanwhile, and stored to both
    Both scale[C], offset[C];
    simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
      scale[c] = Both::of_channels(F::load(scales.scale + channel + c * F::size));
      if constexpr (Offsets) offset[c] = Both::of_channels(F::load(scales.offset + channel + c * F::size));
    });
    simd::unroll<pairs>([&](auto p) INLAY_INLINE_LAMBDA {
      const Both step = Both::of_rows(step_of + at + 2 * p);
      const Both sum = Offsets ? Both::of_rows(sum_of + at + 2 * p) : Both();
      simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
        float* const to = totals + (p * C + c) * size;
        w4_add<Offsets>(Both::load(to), Both::of_sums(dots[p][c]), scale[c], offset[c], sum, step).store(to);
      });
    });
    at += R, channel += W4Scales::width;
  }
  simd::unroll<pairs>([&](auto p) INLAY_INLINE_LAMBDA {
    float* const of_pair = total + p * C * size;
    Both both[C];
    simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA { both[c] = Both::load(of_pair + c * size); });
    simd::unroll<C>([&](auto c) INLAY_INLINE_LAMBDA {
      const auto rows = simd::to_rows(both[c]);
      rows.first.store(of_pair + c * F::size);
      rows.second.store(of_pair + (C + c) * F::size);
    });
  });
}
#endif

}  // namespace inlay::cpu
