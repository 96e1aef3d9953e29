// Layer normalisation.                                                          Ba, Kiros & Hinton, 2016
//
//   r[t,:] = x[t,:] + residual[t,:]                               where residual is given, else x
//   y[t,:] = (r[t,:] - m) / sqrt(v + eps) * weight + bias         m = mean(r[t,:]), v = mean((r[t,:] - m)^2)
//
// Without weight it is 1, without bias 0 (Command R has no bias). Models that multiply by 1 + w (Nemotron) give the
// sum.
//
// Sums run in f32 for every input type, v in passes of its own over what is left of r: neither is a difference of large
// numbers, so that a row of large mean and small variance keeps its accuracy. Rounding points: the residual sum is
// rounded to residual's type and the norm reads the rounded value; y is rounded once.
//
// Not finite: a row that holds NaN or infinity is NaN throughout, and so is one of equal numbers where eps is 0. Finite
// rows have the formula's answer, whatever their sums and squares are in f32.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct LayerNorm {
  ConstView<2, Space> x;            // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<1, Space> weight = {};  // [dim]          f32 or x's type; optional
  ConstView<1, Space> bias = {};    // [dim]          f32 or x's type, weight's where both are given; optional
  View<2, Space> residual = {};     // [tokens, dim]  optional, x's type; becomes x + residual
  View<2, Space> y;                 // [tokens, dim]  x's type; may be x itself
  float eps = 1e-5f;                // >= 0

  static constexpr std::string_view name = "layer_norm";
  static constexpr auto fields = FieldList{in("x", &LayerNorm::x),
                                           optional_in("weight", &LayerNorm::weight),
                                           optional_in("bias", &LayerNorm::bias),
                                           optional_out("residual", &LayerNorm::residual),
                                           out("y", &LayerNorm::y),
                                           scalar("eps", &LayerNorm::eps)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const LayerNorm<Space>& op) {
  return Check(op)
      .dtype(op.x, floats)
      .dtype(op.weight, DTypes{DType::f32, op.x.dtype})
      .extent(op.weight, 0, op.x.extents[1])
      .dtype(op.bias, DTypes{DType::f32, op.x.dtype})
      .extent(op.bias, 0, op.x.extents[1])
      .that(!op.weight.present() || !op.bias.present() || op.weight.dtype == op.bias.dtype, op.bias,
            "must have the weight's type")
      .same_dtype(op.residual, op.x)
      .same_shape(op.residual, op.x)
      .same_dtype(op.y, op.x)
      .same_shape(op.y, op.x)
      .not_negative(op.eps)
      .may_alias(op.y, op.x);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
