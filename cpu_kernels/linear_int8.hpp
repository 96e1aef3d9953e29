// Few tokens: memory is the limit, n * k bytes of weights once. Many: the int8 dot product, 2 n k an
// output row. Two panels of 16 channels by 12 tokens are 24 registers of sums on VNNI; an inner step
// loads 2 lines of weights, broadcasts 12 groups of activations and does 24 VPDPBUSD.
//
// The loops: a task owns some panels; for each pair of them (k * 32 bytes, which stay in the second
// cache) all tiles of tokens pass by. A sum is never cut along k, so nothing is stored half done.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_int8.hpp>

#include "cpu_kernels/linear/int8_tokens.hpp"
#include "cpu_kernels/simd/ints.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "cpu_kernels/support/kernels.hpp"

namespace inlay::cpu::int8 {

template <class Level> using InputOf = typename simd::DotI8<Level>::Input;

// out[r][p][16] = sum over the groups of inputs[r] * weights[p], for R tokens of one tile and U parts of
// panels: a part is the channels of one Sums, a whole panel or half of one.
template <class Level, int R, int U>
void dot_tile(const InputOf<Level>* inputs, const std::int8_t* weights, index panel_bytes, index groups,
              std::int32_t* out, index out_stride) {
  using Dot = simd::DotI8<Level>;
  constexpr int parts = linear_int8::panel / Dot::channels;
  constexpr int unroll = R * U < Dot::in_flight ? Dot::in_flight / (R * U) : 1;
  typename Dot::Sums sums[unroll][R][U];
  const auto step = [&](int chain, index g) __attribute__((always_inline)) {
    const std::int8_t* lines = weights + g * linear_int8::line;
    typename Dot::Weights w[U];
    INLAY_UNROLL
    for (int u = 0; u < U; ++u)
      w[u] = Dot::Weights::load(lines + u / parts * panel_bytes + u % parts * Dot::channels * 4);
    INLAY_UNROLL
    for (int r = 0; r < R; ++r) {
      const auto x = Dot::Inputs::load(inputs + (g * R + r) * 4);
      INLAY_UNROLL
      for (int u = 0; u < U; ++u) dot(sums[chain][r][u], w[u], x);
    }
  };
  index g = 0;
  for (; g + unroll <= groups; g += unroll) {
    INLAY_UNROLL
    for (int chain = 0; chain < unroll; ++chain) step(chain, g + chain);
  }
  for (; g < groups; ++g) step(0, g);
  INLAY_UNROLL
  for (int r = 0; r < R; ++r) {
    INLAY_UNROLL
    for (int u = 0; u < U; ++u) {
      INLAY_UNROLL
      for (int chain = 1; chain < unroll; ++chain) sums[0][r][u] = sums[0][r][u] + sums[chain][r][u];
      sums[0][r][u].store(out + r * out_stride + u * Dot::channels);
    }
  }
}

template <class Level> inline constexpr RowTiles int8_tiles{.most = simd::DotI8<Level>::rows, .halves = true};

// A tile of tokens by P panels, 1 or Dot::panels.
template <class Level, int P>
INLAY_INLINE void dot_panels(index rows, const InputOf<Level>* inputs, const std::int8_t* weights, index panel_bytes,
                             index groups, std::int32_t* out) {
  using Dot = simd::DotI8<Level>;
  static_assert(Dot::rows <= int8_tile_rows);
  constexpr int parts = linear_int8::panel / Dot::channels * P;
  with_tile_rows<int8_tiles<Level>>(rows, [&]<int R>(std::integral_constant<int, R>) INLAY_INLINE_LAMBDA {
    constexpr int at_once = R * parts <= Dot::sums ? parts : 1;
    for (int part = 0; part < parts; part += at_once)
      dot_tile<Level, R, at_once>(inputs, weights + part * Dot::channels * 4, panel_bytes, groups,
                                  out + part * Dot::channels, P * linear_int8::panel);
  });
}

// shadow[c] = sum over token t's outliers of (r - q) * (w - weight_zero), for 16 channels from `o`.
template <class Level>
void shadow_of(const LinearInt8<Host>& op, index t, const Token& token, const std::uint64_t* outliers, index panel,
               float* shadow) {
  using F = simd::Floats<Level>;
  using I = simd::Ints<Level>;
  using namespace linear_int8;
  const index k = op.x.extents[1], n = op.y.extents[1], groups = op.weight.extents[1];
  float zeros[16] = {};
  if (op.weight_zero.present())
    for (index c = 0; c < 16 && linear_int8::panel * panel + c < n; ++c)
      zeros[c] = op.weight_zero.template as<std::int8_t>()[entry_of(op.weight_zero, linear_int8::panel * panel + c)];
  for (int c = 0; c < 16; ++c) shadow[c] = 0;
  for (index word = 0; word * 64 < k; ++word)
    for (std::uint64_t left = outliers[word]; left != 0; left &= left - 1) {
      const index i = word * 64 + __builtin_ctzll(left);
      const F x = F(reduce_sum(load_elements<Level>(op.x.data, op.x.dtype, t * op.x.strides[0] + i, 1)));
      const F r = round(x / F(token.scale)) + F(token.zero);
      const F clipped = r - min(F(127), max(F(-128), r));
      const std::int8_t* line = op.weight.template as<std::int8_t>() + (panel * groups + i / group) * linear_int8::line;
      for (int c = 0; c < 16; c += F::size) {
        const I four = I::load(reinterpret_cast<const std::int32_t*>(line) + c);
        const F w = four.byte(static_cast<int>(i % group)).floats() - F::load(zeros + c);
        (F::load(shadow + c) + clipped * w).store(shadow + c);
      }
    }
}

// The sums of one panel for the tokens of a tile, to y. Products and sums are rounded one by one, never
// fused: every level gives the same bits. What belongs to channels is loaded once for all tokens.
template <class Level>
void finish(const LinearInt8<Host>& op, TileOfRows tile, const Token* tokens, const std::uint64_t* outliers,
            index words, index panel, const std::int32_t* sums, index sums_stride) {
  using F = simd::Floats<Level>;
  using I = simd::Ints<Level>;
  constexpr index channels = linear_int8::panel;
  const bool with_weight_zero = op.weight_zero.present(), with_bias = op.bias.present(),
             requantizes = op.y_scale.present();
  float shadows[simd::DotI8<Level>::rows][channels];
  for (index r = 0; r < tile.rows; ++r)
    if (tokens[r].outliers) shadow_of<Level>(op, tile.first + r, tokens[r], outliers + r * words, panel, shadows[r]);
  const index first = panel * channels, left = op.y.extents[1] - first;
  const index count = min(left, channels);
  for (index c = 0; c < count; c += F::size) {
    const index n = min(count - c, F::size), o = first + c;
    const I weight_sum = I::load(op.weight_sum.template as<std::int32_t>() + o, n);
    I weight_zero;
    if (with_weight_zero) {
      std::int32_t zeros[F::size] = {};
      for (index i = 0; i < n; ++i)
        zeros[i] = op.weight_zero.template as<std::int8_t>()[entry_of(op.weight_zero, o + i)];
      weight_zero = I::load(zeros);
    }
    const auto exact = [&](index r) {
      const I sum = I::load(sums + r * sums_stride + c) - I(tokens[r].shift) * weight_sum;
      return with_weight_zero ? sum - I(tokens[r].rest) * weight_zero : sum;
    };
    if (op.y.dtype == DType::i32) {
      std::int32_t* y = op.y.template as<std::int32_t>() + tile.first * op.y.strides[0] + o;
      for (index r = 0; r < tile.rows; ++r) exact(r).store(y + r * op.y.strides[0], n);
      continue;
    }
    const float* scale = op.weight_scale.template as<float>();
    const F weight_scale = op.weight_scale.extents[0] == 1 ? F(*scale) : F::load(scale + o, n);
    const F bias = with_bias ? load_elements<Level>(op.bias.data, op.bias.dtype, o, n) : F();
    const F y_scale = requantizes ? F(*op.y_scale.template as<float>()) : F(1);
    const F y_zero =
        op.y_zero.present() ? F(reduce_sum(load_elements<Level>(op.y_zero.data, op.y_zero.dtype, 0, 1))) : F();
    for (index r = 0; r < tile.rows; ++r) {
      F v = exact(r).floats();
      if (tokens[r].outliers) v = v + F::load(shadows[r] + c);
      v = v * (F(tokens[r].scale) * weight_scale);
      if (with_bias) v = v + bias;
      if (requantizes) v = rounded_quotient(v, y_scale) + y_zero;
      store_elements<Level>(v, op.y.data, op.y.dtype, (tile.first + r) * op.y.strides[0] + o, n);
    }
  }
}

// What lies in the workspace.
template <class Level> struct Scratch {
  index tokens, groups, words;  // words of outlier bits for each token; 0: none are kept
  explicit Scratch(const LinearInt8<Host>& op)
      : tokens(op.x.extents[0]),
        groups(op.weight.extents[1]),
        words(op.shadow_outliers ? (op.x.extents[1] + 63) / 64 : 0) {}
  index inputs() const { return tokens * groups * linear_int8::group; }
  std::size_t bytes() const {
    return WorkspaceCutter::padded<InputOf<Level>>(inputs()) + WorkspaceCutter::padded<Token>(tokens) +
           WorkspaceCutter::padded<std::uint64_t>(tokens * words);
  }
};

template <class Level> Status run(const Parallel& parallel, const LinearInt8<Host>& op, Workspace workspace) {
  using Dot = simd::DotI8<Level>;
  const Scratch<Level> scratch(op);
  const index tokens = scratch.tokens, groups = scratch.groups, words = scratch.words;
  const index panels = op.weight.extents[0], tiles = int8_tiles<Level>.count(tokens);
  if (tokens == 0 || panels == 0) return {};
  WorkspaceCutter cutter(workspace);
  InputOf<Level>* inputs = cutter.take<InputOf<Level>>(scratch.inputs());
  Token* token = cutter.take<Token>(tokens);
  std::uint64_t* outliers = cutter.take<std::uint64_t>(tokens * words);
  const index token_inputs = groups * linear_int8::group;
  const Work preparing{.bytes = 5 * static_cast<double>(tokens * token_inputs)};
  parallel.ranges(tokens, 1, preparing, [&](index begin, index end) {
    for (index t = begin; t < end; ++t) {
      const TileOfRows tile = int8_tiles<Level>.holding(t, tokens);
      prepare_token<Level>(op, t, tile, inputs + tile.first * token_inputs, token[t],
                           words ? outliers + t * words : nullptr);
    }
  });

  const index pairs = (panels + Dot::panels - 1) / Dot::panels;
  const index panel_bytes = groups * linear_int8::line;
  const double bytes = static_cast<double>(panels * panel_bytes);
  const Work multiplying{.bytes = bytes, .operations = 2 * static_cast<double>(tokens) * bytes};
  parallel.ranges(pairs, 1, multiplying, [&](index begin, index end) {
    for (index pair = begin; pair < end; ++pair) {
      const index panel = pair * Dot::panels;
      const index here = panels - panel < Dot::panels ? 1 : Dot::panels;
      const std::int8_t* weights = op.weight.template as<std::int8_t>() + panel * panel_bytes;
      for (index t = 0; t < tiles; ++t) {
        const auto [first, rows] = int8_tiles<Level>.tile(t, tokens);
        alignas(64) std::int32_t sums[Dot::rows * Dot::panels * 16];
        const InputOf<Level>* tile = inputs + first * token_inputs;
        here == 1 ? dot_panels<Level, 1>(rows, tile, weights, panel_bytes, groups, sums)
                  : dot_panels<Level, Dot::panels>(rows, tile, weights, panel_bytes, groups, sums);
        for (index p = 0; p < here; ++p)
          finish<Level>(op, {first, rows}, token + first, outliers + first * words, words, panel + p, sums + p * 16,
                        here * 16);
      }
    }
  });
  return {};
}

}  // namespace inlay::cpu::int8

namespace inlay::cpu {

template <> struct Kernels<LinearInt8<Host>> {
  template <class Level>
  static Status compute(const Parallel& parallel, const LinearInt8<Host>& op, Workspace workspace) {
    return int8::run<Level>(parallel, op, workspace);
  }
  template <class Level> static std::size_t scratch_bytes(const Parallel&, const LinearInt8<Host>& op) {
    return int8::Scratch<Level>(op).bytes();
  }
};

}  // namespace inlay::cpu
