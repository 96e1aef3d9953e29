// Linear layer in 8-bit integers (W8A8).        Dettmers et al., 2022; Xiao et al., 2023 (SmoothQuant)
//
//   acc[t,o] = sum_i (q[t,i] - x_zero[t]) * (w[o,i] - weight_zero[o])            int32, exact
//   y[t,o]   = acc[t,o] * (x_scale[t] * weight_scale[o]) + bias[o]
//
// Where q comes from:
//   x i8 u8                 it is x; x_scale (and x_zero) are those x was quantized with
//   x float, x_scale given  q = saturate(round(x / x_scale) + x_zero), as the operator quantize does
//   x float, no x_scale     dynamic: one scale a token from the token's own row, as in quantize;
//                           `asymmetric` gives each token a zero point too
//
// Where y goes to:
//   y f32 f16 bf16          the value above
//   y i8 u8                 saturate(round(value / y_scale) + y_zero)
//   y i32                   acc itself: no scale, no bias (ONNX MatMulInteger)
//
// Shadow outliers (mllm-NPU: Xu et al., 2025): with a static x_scale a rounded activation r may fall
// outside the range of q. With `shadow_outliers` the clipped part (r - q) * w is added in f32, which
// makes y that of the unclipped r. It costs one pass over a weight column for each such activation.
//
// acc is the same integer on every backend, and is exact: check() bounds k so that it fits int32.
// A token whose float x holds NaN or Inf gives NaN (y_zero in integer outputs).
//
// weight is packed once by pack_linear_int8, the same bytes for every instruction set: panels of 16
// output channels, in each the inputs four by four, so that one 64-byte line feeds 16 dot products
// of length four. Rows and inputs beyond n and k are zero.
//
//   panel 0, inputs 0..3                       panel 0, inputs 4..7
//   | w[0,0..3] | w[1,0..3] | .. | w[15,0..3] | w[0,4..7] | w[1,4..7] | .. | w[15,4..7] | ...
//     0           4                60           64                           124        byte
//
// Of a mixture of experts (core/experts.hpp) each expert's weight is packed by itself, and they lie behind each other.
//
// weight_sum[o] = sum_i w[o,i] comes from packing too: zero points and unsigned dot products
// ((q + 128) * w on VNNI) are taken back by multiples of it.
#pragma once

#include <cstring>

#include <inlay/core/check.hpp>
#include <inlay/core/experts.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/isa.hpp>

namespace inlay {

template <class Space = Host> struct LinearInt8 {
  static constexpr Isa dot_levels[] = {Isa::avx512_vnni, Isa::neon_dotprod};

  ConstView<2, Space> x;                  // [tokens, k]       i8 u8 f32 f16 bf16; row stride free
  ConstView<1, Space> x_scale = {};       // [1] or [tokens]   f32; see above
  ConstView<1, Space> x_zero = {};        // [1] or [tokens]   q's type (i8 for float x); optional
  ConstView<3, Space> weight;             // [ceil(n / 16), ceil(k / 4), 64]  i8, packed
  ConstView<1, Space> weight_sum;         // [n]               i32
  ConstView<1, Space> weight_scale = {};  // [1] or [n]        f32; left out with i32 output
  ConstView<1, Space> weight_zero = {};   // [1] or [n]        i8; optional
  ConstView<1, Space> bias = {};          // [n]               f32 f16 bf16; optional
  ConstView<1, Space> expert_ends = {};   // [experts]         i32; optional: weight .. bias times them
  View<2, Space> y;                       // [tokens, n]       f32 f16 bf16 i8 u8 i32; row stride free
  ConstView<1, Space> y_scale = {};       // [1]               f32; with i8 and u8 output
  ConstView<1, Space> y_zero = {};        // [1]               y's type; optional
  bool asymmetric = false;                // dynamic quantization with zero points
  bool shadow_outliers = false;           // float x with a static x_scale only

  static constexpr std::string_view name = "linear_int8";
  static constexpr auto fields = FieldList{in("x", &LinearInt8::x),
                                           optional_in("x_scale", &LinearInt8::x_scale),
                                           optional_in("x_zero", &LinearInt8::x_zero),
                                           in("weight", &LinearInt8::weight),
                                           in("weight_sum", &LinearInt8::weight_sum),
                                           optional_in("weight_scale", &LinearInt8::weight_scale),
                                           optional_in("weight_zero", &LinearInt8::weight_zero),
                                           optional_in("bias", &LinearInt8::bias),
                                           optional_in("expert_ends", &LinearInt8::expert_ends),
                                           out("y", &LinearInt8::y),
                                           optional_in("y_scale", &LinearInt8::y_scale),
                                           optional_in("y_zero", &LinearInt8::y_zero),
                                           scalar("asymmetric", &LinearInt8::asymmetric),
                                           scalar("shadow_outliers", &LinearInt8::shadow_outliers)};

  INLAY_INLINE constexpr index experts() const { return expert_ends.present() ? expert_ends.extents[0] : 1; }
};

namespace linear_int8 {

inline constexpr index panel = 16;            // output channels in a panel
inline constexpr index group = 4;             // inputs in a group
inline constexpr index line = panel * group;  // bytes

inline namespace INLAY_UNIT_ISA {

constexpr std::array<index, 3> packed_extents(index n, index k) {
  return {groups_of(n, panel), groups_of(k, group), line};
}

// The longest k whose acc fits int32, from the largest factors: 131071 for i8 without zero points.
constexpr index longest_k(DType x, bool x_zero, bool weight_zero) {
  const index largest_x = x == DType::u8 || x_zero ? 255 : 128;
  const index largest_w = weight_zero ? 255 : 128;
  return 2147483647 / (largest_x * largest_w);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace linear_int8

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const LinearInt8<Space>& op) {
  const bool float_x = floats.contains(op.x.dtype);
  const bool raw = op.y.dtype == DType::i32;
  const bool requantizes = op.y.dtype == DType::i8 || op.y.dtype == DType::u8;
  const index tokens = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1], experts = op.experts();
  std::array<index, 3> packed = linear_int8::packed_extents(n, k);
  packed[0] = saturating_multiply(experts, packed[0]);
  const index channels = saturating_multiply(experts, n);
  const index longest =
      linear_int8::longest_k(op.x.dtype, op.x_zero.present() || op.asymmetric, op.weight_zero.present());
  const auto one_or = [](const auto& view, index count) {
    return !view.present() || view.extents[0] == 1 || view.extents[0] == count;
  };
  const auto must_have = [](const auto& view, index count) {
    return [&view, count] { return "has extent " + number(view.extents[0]) + "; it must be 1 or " + number(count); };
  };
  return check_expert_ends(
      op,
      Check(op)
          .dtype(op.expert_ends, DType::i32)
          .that(op.experts() > 0, op.expert_ends, no_expert)
          .dtype(op.x, {DType::i8, DType::u8, DType::f32, DType::f16, DType::bf16})
          .dtype(op.y, {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32})
          .extent(op.y, 0, tokens)
          .that(k <= longest, op.x,
                [&] { return "has " + number(k) + " columns; int32 sums need at most " + number(longest); })
          .dtype(op.weight, DType::i8)
          .shape(op.weight, packed)
          .contiguous(op.weight)
          .dtype(op.weight_sum, DType::i32)
          .extent(op.weight_sum, 0, channels)
          .that(!raw || !float_x, op.x, "is a float; it must be i8 or u8 with i32 output")
          .that(raw || op.weight_scale.present(), op.weight_scale, "is missing; it must be given unless y is i32")
          .that(!raw || !op.weight_scale.present(), op.weight_scale, "must be left out with i32 output")
          .dtype(op.weight_scale, DType::f32)
          .that(one_or(op.weight_scale, channels), op.weight_scale, must_have(op.weight_scale, channels))
          .dtype(op.weight_zero, DType::i8)
          .that(one_or(op.weight_zero, channels), op.weight_zero, must_have(op.weight_zero, channels))
          .that(raw || float_x || op.x_scale.present(), op.x_scale, "is missing; it must be given with i8 and u8 x")
          .that(!raw || !op.x_scale.present(), op.x_scale, "must be left out with i32 output")
          .dtype(op.x_scale, DType::f32)
          .that(one_or(op.x_scale, tokens), op.x_scale, must_have(op.x_scale, tokens))
          .dtype(op.x_zero, float_x ? DType::i8 : op.x.dtype)
          .that(one_or(op.x_zero, tokens), op.x_zero, must_have(op.x_zero, tokens))
          .that(!op.x_zero.present() || !float_x || op.x_scale.present(), op.x_zero,
                "must be left out where float x is quantized dynamically; `asymmetric` asks for zero points")
          .dtype(op.bias, floats)
          .extent(op.bias, 0, channels)
          .that(!raw || !op.bias.present(), op.bias, "must be left out with i32 output")
          .that(op.y_scale.present() == requantizes, op.y_scale, "must be given with i8 and u8 output, and only then")
          .dtype(op.y_scale, DType::f32)
          .extent(op.y_scale, 0, 1)
          .that(!op.y_zero.present() || requantizes, op.y_zero, "must be left out unless y is i8 or u8")
          .same_dtype(op.y_zero, op.y)
          .extent(op.y_zero, 0, 1)
          .that(!op.asymmetric || (float_x && !op.x_scale.present()), op.asymmetric,
                "must be false unless x is a float without x_scale")
          .that(!op.shadow_outliers || (float_x && op.x_scale.present()), op.shadow_outliers,
                "must be false unless x is a float with x_scale"));
}

template <class Space> LinearInt8<Space> expert_part(LinearInt8<Space> op, index expert, ExpertRows rows) {
  const index experts = op.experts();
  // One number for all of them stays.
  const auto of_rows = [&](const auto& view) {
    return view.extents[0] <= 1 ? view : view.slice(0, rows.first, rows.count);
  };
  const auto of_channels = [&](const auto& view) {
    return view.extents[0] <= 1 ? view : of_expert(view, expert, experts);
  };
  op.x_scale = of_rows(op.x_scale);
  op.x_zero = of_rows(op.x_zero);
  op.x = op.x.slice(0, rows.first, rows.count);
  op.y = op.y.slice(0, rows.first, rows.count);
  op.weight = of_expert(op.weight, expert, experts);
  op.weight_sum = of_expert(op.weight_sum, expert, experts);
  op.weight_scale = of_channels(op.weight_scale);
  op.weight_zero = of_channels(op.weight_zero);
  op.bias = of_expert(op.bias, expert, experts);
  op.expert_ends = {};
  return op;
}

// So many panels of channels from panel `first` on, of a linear without experts.
template <class Space> LinearInt8<Space> channel_part(LinearInt8<Space> op, index first, index panels) {
  using linear_int8::panel;
  const index begin = first * panel, rest = op.y.extents[1] - begin,
              count = panels * panel < rest ? panels * panel : rest;
  const bool one_channel = op.y.extents[1] == 1;
  const auto of_channels = [&](const auto& view) {
    return view.extents[0] > 1 || (one_channel && view.present()) ? view.slice(0, begin, count) : view;
  };
  op.y = op.y.slice(1, begin, count);
  op.weight = op.weight.slice(0, first, panels);
  op.weight_sum = op.weight_sum.slice(0, begin, count);
  op.weight_scale = of_channels(op.weight_scale);
  op.weight_zero = of_channels(op.weight_zero);
  op.bias = of_channels(op.bias);
  return op;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
