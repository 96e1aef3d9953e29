// Gaussian error linear unit, alone or as a gate, and two functions     Hendrycks & Gimpel, 2016; So et al. (Primer),
// 2021; of one element that models have in its place.                         Gemma 2, 2024
//
//   erf            g(x) = x/2 * (1 + erf(x / sqrt 2))
//   tanh           g(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//   quick          g(x) = x * sigmoid(1.702 x)
//   relu_squared   g(x) = max(x, 0)^2
//   softcap        g(x) = cap * tanh(x / cap)
//
//   y[t,i] = g(x[t,i]) * up[t,i]          without `up`: y = g(x). Gemma's GeGLU is tanh with up.
//
// Computed in f32, rounded once. NaN stays NaN, and g(+inf) = inf but for softcap's cap. g(-inf) is -inf * 0 = NaN in
// the first three forms, 0 of relu_squared and -cap of softcap.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

enum class GeluForm : unsigned char { erf, tanh, quick, relu_squared, softcap };

template <class Space = Host> struct Gelu {
  ConstView<2, Space> x;        // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<2, Space> up = {};  // [tokens, dim]  x's type
  View<2, Space> y;             // [tokens, dim]  x's type; may be x or up itself
  GeluForm form = GeluForm::erf;
  float cap = 0;  // > 0 with softcap, else 0

  static constexpr std::string_view name = "gelu";
  static constexpr auto fields = std::tuple{in("x", &Gelu::x), optional_in("up", &Gelu::up), out("y", &Gelu::y),
                                            scalar("form", &Gelu::form), scalar("cap", &Gelu::cap)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Gelu<Space>& op) {
  return Check(op)
      .dtype(op.x, floats)
      .same_dtype(op.up, op.x)
      .same_shape(op.up, op.x)
      .same_dtype(op.y, op.x)
      .same_shape(op.y, op.x)
      .that(op.form <= GeluForm::softcap, op.form,
            [&] { return "is " + format_value(op.form) + "; it must be erf, tanh, quick, relu_squared or softcap"; })
      .finite(op.cap)
      .that(op.form == GeluForm::softcap ? op.cap > 0 : op.cap == 0, op.cap,
            [&] { return "is " + format_value(op.cap) + "; it must be positive with the form softcap, else 0"; })
      .may_alias(op.y, op.x)
      .may_alias(op.y, op.up);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
