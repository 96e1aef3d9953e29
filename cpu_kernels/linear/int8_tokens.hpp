// Activations of linear_int8 on their way into the dot products: quantized where they are floats,
// stored as DotI8's Input, and laid out by register tiles (linear/row_tiles.hpp). A tile of R tokens is one stream:
//
//   | t0[0..3] | t1[0..3] | .. | t(R-1)[0..3] | t0[4..7] | t1[4..7] | ..
#pragma once

#include <cstring>

#include <inlay/ops/linear_int8.hpp>

#include "cpu_kernels/linear/cuts.hpp"
#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/quantize.hpp"
#include "cpu_kernels/simd/dot_i8.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu::int8 {

// What turns the sums of one token into its outputs.
struct Token {
  float scale;         // NaN where the token holds NaN or Inf
  float zero;          // of q, for the shadow of outliers
  std::int32_t shift;  // q is stored plus an offset; offset + zero is to be taken from it
  std::int32_t rest;   // sum_i (q[i] - zero): what a zero point of the weights multiplies
  bool outliers;       // any of q was clipped: its bits say which
};

INLAY_INLINE index entry_of(const ConstView<1>& view, index i) { return view.extents[0] == 1 ? 0 : i; }

// Bits of the activations x[t, first .. first + n) whose rounding falls outside -128..127.
template <class Level>
INLAY_INLINE std::uint64_t outliers_of(const LinearInt8<Host>& op, index from, index n, float scale, float zero) {
  using F = simd::Floats<Level>;
  std::uint64_t found = 0;
  for (index i = 0; i < n; i += F::size) {
    const index m = min(n - i, F::size);
    const F r = round(load_elements<Level>(op.x.data, op.x.dtype, from + i, m) / F(scale)) + F(zero);
    const F beyond = max(r - F(127), F(-128) - r);  // in lanes past m: -127 or less, unless zero is out of range
    if (!(reduce_max(beyond) > 0)) continue;
    float lanes[F::size];
    beyond.store(lanes);
    for (index j = 0; j < m; ++j) found |= std::uint64_t{lanes[j] > 0} << (i + j);
  }
  return found;
}

// Token t: its scale, its Inputs (`inputs` begins with its tile) and the bits of its outliers.
template <class Level>
void prepare_token(const LinearInt8<Host>& op, index t, TileOfRows tile, typename simd::DotI8<Level>::Input* inputs,
                   Token& token, std::uint64_t* outliers) {
  using F = simd::Floats<Level>;
  using Input = typename simd::DotI8<Level>::Input;
  constexpr index chunk = 64;
  const index k = op.x.extents[1], groups = op.weight.extents[1], from = t * op.x.strides[0];
  const bool float_x = floats.contains(op.x.dtype), is_unsigned = op.x.dtype == DType::u8;
  RowScale row{1, 0};
  if (op.x_scale.present()) row.scale = op.x_scale.template as<float>()[entry_of(op.x_scale, t)];
  if (op.x_zero.present()) {
    const index at = entry_of(op.x_zero, t);
    row.zero = is_unsigned ? op.x_zero.template as<std::uint8_t>()[at] : op.x_zero.template as<std::int8_t>()[at];
  }
  bool finite = true;
  if (float_x) {
    const RowRange range = row_range<Level>(op.x.data, op.x.dtype, from, k);
    finite = !range.holds_nan;
    if (!op.x_scale.present()) row = dynamic_scale(range, DType::i8, op.asymmetric);
  }
  const int offset = simd::DotI8<Level>::input_offset(is_unsigned);
  std::int32_t sum = 0;
  token.outliers = false;
  for (index first = 0; first < k; first += chunk) {
    const index n = min(k - first, chunk);
    std::int8_t q[chunk] = {};
    if (float_x) {
      for (index i = 0; i < n; i += F::size) {
        const index m = min(n - i, F::size);
        const F v = load_elements<Level>(op.x.data, op.x.dtype, from + first + i, m);
        (rounded_quotient(v, F(row.scale)) + F(row.zero)).store_i8(q + i, m);
      }
    } else {
      std::memcpy(q, static_cast<const std::int8_t*>(op.x.data) + from + first, static_cast<std::size_t>(n));
    }
    if (outliers != nullptr) {
      const std::uint64_t found = finite ? outliers_of<Level>(op, from + first, n, row.scale, row.zero) : 0;
      outliers[first / chunk] = found;
      token.outliers |= found != 0;
    }
    Input stored[chunk];
    for (index i = 0; i < chunk; ++i) {
      const int value = is_unsigned ? static_cast<std::uint8_t>(q[i]) : q[i];
      stored[i] = static_cast<Input>(value + offset);
      sum += value;
    }
    const index first_group = first / 4, here = min(groups - first_group, chunk / 4);
    Input* to = inputs + (first_group * tile.rows + (t - tile.first)) * 4;
    for (index g = 0; g < here; ++g) std::memcpy(to + g * tile.rows * 4, stored + 4 * g, 4 * sizeof(Input));
  }
  const std::int32_t zero = static_cast<std::int32_t>(row.zero);
  token.scale = finite ? row.scale : __builtin_nanf("");
  token.zero = row.zero;
  token.shift = offset + zero;
  token.rest = sum - static_cast<std::int32_t>(k) * zero;
}

}  // namespace inlay::cpu::int8
