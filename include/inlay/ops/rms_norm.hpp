// Root-mean-square normalisation.                                 Zhang & Sennrich, 2019
//
//   r[t,:] = x[t,:] + residual[t,:]                               where residual is given, else x
//   y[t,:] = cast(r[t,:] / sqrt(mean(r[t,:]^2) + eps)) * (weight + weight_offset)
//
// The sum of squares runs in f32 for every input type (vLLM's, Llama's and ours alike). Rounding
// points: the residual sum is rounded to residual's type and the norm reads the rounded value; the
// normalised row is cast to x's type before the product with weight, as Llama does. Neither happens
// for Gemma (weight_offset 1) nor for int8 output, which multiply in f32.
//
//   heads > 1   QK norm: a row holds `heads` vectors of dim = extent / heads, each normalised alone
//   y i8        one scale a row: y_scale[t] = max|row| / 127 rounded to f32, y = round(row / y_scale[t])
//
// Not finite: a vector that holds NaN or infinity is NaN throughout, and so is one of zeros where eps is 0; finite ones
// whose squares are beyond f32, or below what it holds, have the formula's answer. With int8 output a row with anything
// that is not finite has no scale: y_scale[t] is NaN, its y are 0, and whatever is dequantized from it is NaN.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct RmsNorm {
  ConstView<2, Space> x;         // [tokens, heads * dim]  f32 f16 bf16; row stride free
  ConstView<1, Space> weight;    // [dim]                  f32 or x's type
  View<2, Space> residual = {};  // [tokens, heads * dim]  optional, x's type; becomes x + residual
  View<2, Space> y;              // [tokens, heads * dim]  x's type or i8; may be x itself
  View<1, Space> y_scale = {};   // [tokens]               f32; with i8 output only
  index heads = 1;
  float eps = 1e-5f;        // >= 0
  float weight_offset = 0;  // 1 for Gemma

  static constexpr std::string_view name = "rms_norm";
  static constexpr auto fields = FieldList{in("x", &RmsNorm::x),
                                           in("weight", &RmsNorm::weight),
                                           optional_out("residual", &RmsNorm::residual),
                                           out("y", &RmsNorm::y),
                                           optional_out("y_scale", &RmsNorm::y_scale),
                                           scalar("heads", &RmsNorm::heads),
                                           scalar("eps", &RmsNorm::eps),
                                           scalar("weight_offset", &RmsNorm::weight_offset)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const RmsNorm<Space>& op) {
  const bool quantized = op.y.dtype == DType::i8;
  return Check(op)
      .dtype(op.x, floats)
      .at_least(op.heads, 1)
      .that(op.heads < 1 || op.x.extents[1] % op.heads == 0, op.heads, "must divide the row of x")
      .dtype(op.weight, DTypes{DType::f32, op.x.dtype})
      .extent(op.weight, 0, op.heads < 1 ? 0 : op.x.extents[1] / op.heads)
      .same_dtype(op.residual, op.x)
      .same_shape(op.residual, op.x)
      .dtype(op.y, DTypes{DType::i8, op.x.dtype})
      .same_shape(op.y, op.x)
      .that(op.y_scale.present() == quantized, op.y_scale, "must be given with i8 output, and only then")
      .that(!quantized || op.heads == 1, op.heads, "must be 1 with i8 output")
      .dtype(op.y_scale, DType::f32)
      .extent(op.y_scale, 0, op.x.extents[0])
      .not_negative(op.eps)
      .finite(op.weight_offset)
      .may_alias(op.y, op.x);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
