// Gaussian error linear unit, alone or as a gate.                  Hendrycks & Gimpel, 2016
//
//   erf     g(x) = x/2 * (1 + erf(x / sqrt 2))
//   tanh    g(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//   quick   g(x) = x * sigmoid(1.702 x)
//
//   y[t,i] = g(x[t,i]) * up[t,i]          without `up`: y = g(x). Gemma's GeGLU is tanh with up.
//
// Computed in f32, rounded once. g(+inf) = inf, g(-inf) = -inf * 0 = NaN, NaN stays NaN.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

enum class GeluForm : unsigned char { erf, tanh, quick };

template <class Space = Host> struct Gelu {
  ConstView<2, Space> x;        // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<2, Space> up = {};  // [tokens, dim]  x's type
  View<2, Space> y;             // [tokens, dim]  x's type; may be x or up itself
  GeluForm form = GeluForm::erf;

  static constexpr std::string_view name = "gelu";
  static constexpr auto fields =
      std::tuple{in("x", &Gelu::x), optional_in("up", &Gelu::up), out("y", &Gelu::y), scalar("form", &Gelu::form)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Gelu<Space>& op) {
  return Check(op)
      .dtype(op.x, floats)
      .same_dtype(op.up, op.x)
      .same_shape(op.up, op.x)
      .same_dtype(op.y, op.x)
      .same_shape(op.y, op.x)
      .that(op.form <= GeluForm::quick, op.form,
            [&] { return "is " + format_value(op.form) + "; it must be erf, tanh or quick"; })
      .may_alias(op.y, op.x)
      .may_alias(op.y, op.up);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
