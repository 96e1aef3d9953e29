// The gated unit of Llama's feed-forward.                          Shazeer, 2020 (GLU variants)
//
//   g = min(gate, limit)     u = max(-limit, min(up, limit))
//   y[t,i] = g * sigmoid(alpha * g) * (u + up_offset)
//
// The defaults are plain SwiGLU: silu(gate) * up. gpt-oss: alpha 1.702, limit 7, up_offset 1. ONNX
// SwiGLU's alpha is the same alpha. Computed in f32, rounded once. gate and up are views of their
// own: two projections, or the two halves of one fused row. NaN stays NaN.
#pragma once

#include <limits>

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct Swiglu {
  ConstView<2, Space> gate;  // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<2, Space> up;    // [tokens, dim]  gate's type
  View<2, Space> y;          // [tokens, dim]  gate's type; may be gate or up itself
  float alpha = 1;
  float limit = std::numeric_limits<float>::infinity();  // > 0
  float up_offset = 0;

  static constexpr std::string_view name = "swiglu";
  static constexpr auto fields = FieldList{
      in("gate", &Swiglu::gate),       in("up", &Swiglu::up),           out("y", &Swiglu::y),
      scalar("alpha", &Swiglu::alpha), scalar("limit", &Swiglu::limit), scalar("up_offset", &Swiglu::up_offset)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Swiglu<Space>& op) {
  return Check(op)
      .dtype(op.gate, floats)
      .same_dtype(op.up, op.gate)
      .same_shape(op.up, op.gate)
      .same_dtype(op.y, op.gate)
      .same_shape(op.y, op.gate)
      .finite(op.alpha)
      .that(op.limit > 0, op.limit, [&] { return "is " + number(op.limit) + "; it must be above 0"; })
      .finite(op.up_offset)
      .may_alias(op.y, op.gate)
      .may_alias(op.y, op.up);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
