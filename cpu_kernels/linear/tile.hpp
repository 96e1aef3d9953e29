// The register tile of linear: Rows rows of x against Panels panels of 16 channels, over one block
// of k. One broadcast of x meets Panels * 16 weights, one weight meets Rows rows.
//
// Each element of y is one chain of fused multiply-adds over k in ascending order, whatever the tile:
// a row's numbers do not depend on the tile that it falls into.
#pragma once

#include <inlay/ops/linear.hpp>

#include "cpu_kernels/linear/cuts.hpp"
#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/simd/register_tile.hpp"

namespace inlay::cpu {

// What a panel holds and how it is multiplied: f32 and f16 by fma, bf16 (two k at a time) by fma
// after widening, or two k at a time by the dot product instruction, which takes x in bf16 as well:
// Bf16Dot<W>, where a W that is no bf16 is rounded on the way. Without it by fma, after rounding: AsBf16<W>.
template <class W> struct Bf16Dot {};
template <class W> struct AsBf16 {};
template <class Kind> inline constexpr bool is_bf16_dot = false;
template <class W> inline constexpr bool is_bf16_dot<Bf16Dot<W>> = true;
template <class Kind> inline constexpr bool is_as_bf16 = false;
template <class W> inline constexpr bool is_as_bf16<AsBf16<W>> = true;

template <class Kind> struct PanelOf { using Element = Kind; };
template <class W> struct PanelOf<Bf16Dot<W>> { using Element = W; };
template <class W> struct PanelOf<AsBf16<W>> { using Element = W; };

// x of a tile: for each k its Rows values side by side; pairs of bf16 for the dot product.
template <class Kind> struct PackedXOf { using Element = float; };
template <class W> struct PackedXOf<Bf16Dot<W>> { using Element = std::uint32_t; };

// k that one step of the panel holds, and the cache lines that these take.
template <class Kind>
inline constexpr index step_of = is_bf16_dot<Kind> || std::is_same_v<typename PanelOf<Kind>::Element, bf16> ? 2 : 1;
template <class Kind> inline constexpr int step_lines = std::is_same_v<Kind, Bf16Dot<float>> ? 2 : 1;

// k that an element of packed x holds.
template <class Kind> inline constexpr index x_step = is_bf16_dot<Kind> ? 2 : 1;

// A step of a panel as the dot product takes it.
template <class Level, class W> INLAY_INLINE simd::Bf16Pairs<Level> bf16_step(const W* w) {
  using F = simd::Floats<Level>;
  if constexpr (std::is_same_v<W, bf16>)
    return simd::Bf16Pairs<Level>::load(w);
  else
    return to_bf16_pairs(F::load(w), F::load(w + linear_panel));
}

// Floats rounded to bf16.
template <class F> INLAY_INLINE F as_bf16(F v) {
  bf16 rounded[F::size];
  v.store(rounded);
  return F::load(rounded);
}

template <class Level> inline constexpr int max_tile_rows = linear_tile_rows(simd::Floats<Level>::size);
template <class Level> inline constexpr RowTiles linear_tiles{.most = max_tile_rows<Level>};

// Few rows take more panels, so that there are chains enough to hide the latency of fma.
template <class Level> inline constexpr int tile_panels(int rows) {
  constexpr index lanes = simd::Floats<Level>::size;
  if (lanes == 16) return rows <= 2 ? 4 : 2;
  if (lanes == 8) return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
  return 1;
}

// The tile += x * w of step s, of panels that begin at w.
template <class Level, class Kind, int Rows, int Width, int Panels>
INLAY_INLINE void multiply_step(simd::RegisterTile<Level, Rows, Width>& tile,
                                const typename PanelOf<Kind>::Element* const (&w)[Panels],
                                const typename PackedXOf<Kind>::Element* x, index s) {
  using F = simd::Floats<Level>;
  using W = typename PanelOf<Kind>::Element;
  constexpr int parts = Width / Panels;
  if constexpr (is_bf16_dot<Kind>) {
    using Pairs = simd::Bf16Pairs<Level>;
    Pairs b[Width];
    INLAY_UNROLL
    for (int p = 0; p < Width; ++p) b[p] = bf16_step<Level>(w[p] + s * 2 * linear_panel);
    tile.add([&](int r) INLAY_INLINE_LAMBDA { return Pairs::broadcast(x[s * Rows + r]); }, b);
  } else {
    INLAY_UNROLL
    for (int half = 0; half < step_of<Kind>; ++half) {
      simd::Register<Level> b[Width];
      INLAY_UNROLL
      for (int p = 0; p < Width; ++p) {
        const index part = p % parts * F::size;
        if constexpr (std::is_same_v<W, bf16>) {
          const auto pairs = simd::Bf16Pairs<Level>::load(w[p / parts] + (s * linear_panel + part) * 2);
          b[p] = (half ? pairs.odd() : pairs.even()).v;
        } else {
          b[p] = F::load(w[p / parts] + s * linear_panel + part).v;
        }
        if constexpr (is_as_bf16<Kind>) b[p] = as_bf16(F(b[p])).v;
      }
      const index k = s * step_of<Kind> + half;
      tile.add([&](int r) INLAY_INLINE_LAMBDA { return F(x[k * Rows + r]); }, b);
    }
  }
}

// What a tile fetches while it computes: `bytes` of memory a step, from ahead[panel] on. Into L2: into L1, weights of
// f32 come at 0.6 to 0.85 of the speed for up to eight rows (Zen 4; for 512 rows it is the same).
struct Prefetch {
  const std::byte* ahead[max_tile_panels] = {};
  index bytes = 0;
};

// sums[p][r][16] (+)= x * weight over `steps` steps of the panels.
template <class Level, class Kind, int Rows>
void linear_tile(const typename PackedXOf<Kind>::Element* x, const typename PanelOf<Kind>::Element* const* weight,
                 index steps, float* const* sums, bool accumulate, const Prefetch& prefetch) {
  using F = simd::Floats<Level>;
  using W = typename PanelOf<Kind>::Element;
  constexpr int panels = tile_panels<Level>(Rows);
  constexpr int parts = static_cast<int>(linear_panel / F::size);
  constexpr int width = panels * parts;
  simd::RegisterTile<Level, Rows, width> tile;
  const W* w[panels];
  INLAY_UNROLL
  for (int p = 0; p < panels; ++p) w[p] = weight[p];
  const std::byte* ahead[panels];
  INLAY_UNROLL
  for (int p = 0; p < panels; ++p) ahead[p] = prefetch.ahead[p];

  for (index s = 0; s < steps; ++s) {
    INLAY_UNROLL
    for (int p = 0; p < panels; ++p) {
      __builtin_prefetch(ahead[p] + s * prefetch.bytes, 0, 2);
      if constexpr (step_lines<Kind> == 2) __builtin_prefetch(ahead[p] + s * prefetch.bytes + 64, 0, 2);
    }
    multiply_step<Level, Kind>(tile, w, x, s);
  }

  float* to[width];
  INLAY_UNROLL
  for (int p = 0; p < width; ++p) to[p] = sums[p / parts] + p % parts * F::size;
  tile.each([&](int r, int p, F sum) INLAY_INLINE_LAMBDA {
    float* const out = to[p] + r * linear_panel;
    ((accumulate ? F::load(out) : F()) + sum).store(out);
  });
}

}  // namespace inlay::cpu
