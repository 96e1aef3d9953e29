// Gaussian error linear unit, alone or as a gate, and three functions   Hendrycks & Gimpel, 2016; So et al. (Primer),
// of one element that models have in its place.                         2021; Gemma 2, 2024; Huang (xIELU), 2024
//
//   erf            g(x) = x/2 * (1 + erf(x / sqrt 2))
//   tanh           g(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//   quick          g(x) = x * sigmoid(1.702 x)
//   relu_squared   g(x) = max(x, 0)^2
//   softcap        g(x) = cap * tanh(x / cap)
//   xielu          g(x) = alpha_p x^2 + beta x                              where x > 0
//                         alpha_n (e^min(x, eps) - 1) + (beta - alpha_n) x  elsewhere
//
//   y[t,i] = g(x[t,i]) * up[t,i]          without `up`: y = g(x). Gemma's GeGLU is tanh with up.
//
// Computed in f32, rounded once. NaN stays NaN, and g(+inf) = inf but for softcap's cap. g(-inf) is -inf * 0 = NaN in
// the first three forms, 0 of relu_squared and -cap of softcap; xielu's ends are those of (alpha_p x + beta) x and
// (beta - alpha_n) x.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

enum class GeluForm : unsigned char { erf, tanh, quick, relu_squared, softcap, xielu };

template <class Space = Host> struct Gelu {
  ConstView<2, Space> x;        // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<2, Space> up = {};  // [tokens, dim]  x's type
  View<2, Space> y;             // [tokens, dim]  x's type; may be x or up itself
  GeluForm form = GeluForm::erf;
  float cap = 0;                                      // > 0 with softcap, else 0
  float alpha_p = 0, alpha_n = 0, beta = 0, eps = 0;  // of xielu, eps 0 or less; else 0

  static constexpr std::string_view name = "gelu";
  static constexpr auto fields = FieldList{in("x", &Gelu::x),
                                           optional_in("up", &Gelu::up),
                                           out("y", &Gelu::y),
                                           scalar("form", &Gelu::form),
                                           scalar("cap", &Gelu::cap),
                                           scalar("alpha_p", &Gelu::alpha_p),
                                           scalar("alpha_n", &Gelu::alpha_n),
                                           scalar("beta", &Gelu::beta),
                                           scalar("eps", &Gelu::eps)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Gelu<Space>& op) {
  const bool has_four = op.form == GeluForm::xielu;
  const auto of_xielu_alone = [](float value) {
    return [value] { return "is " + format_value(value) + "; it must be 0 unless the form is xielu"; };
  };
  return Check(op)
      .dtype(op.x, floats)
      .same_dtype(op.up, op.x)
      .same_shape(op.up, op.x)
      .same_dtype(op.y, op.x)
      .same_shape(op.y, op.x)
      .that(op.form <= GeluForm::xielu, op.form,
            [&] {
              return "is " + format_value(op.form) + "; it must be erf, tanh, quick, relu_squared, softcap or xielu";
            })
      .finite(op.cap)
      .that(op.form == GeluForm::softcap ? op.cap > 0 : op.cap == 0, op.cap,
            [&] { return "is " + format_value(op.cap) + "; it must be positive with the form softcap, else 0"; })
      .finite(op.alpha_p)
      .finite(op.alpha_n)
      .finite(op.beta)
      .finite(op.eps)
      .that(has_four || op.alpha_p == 0, op.alpha_p, of_xielu_alone(op.alpha_p))
      .that(has_four || op.alpha_n == 0, op.alpha_n, of_xielu_alone(op.alpha_n))
      .that(has_four || op.beta == 0, op.beta, of_xielu_alone(op.beta))
      .that(has_four ? op.eps <= 0 : op.eps == 0, op.eps,
            [&] { return "is " + format_value(op.eps) + "; it must be 0 or less with xielu, else 0"; })
      .may_alias(op.y, op.x)
      .may_alias(op.y, op.up);
}

// The factor of x below zero.
template <class Space> float xielu_slope(const Gelu<Space>& op) {
  return static_cast<float>(static_cast<double>(op.beta) - static_cast<double>(op.alpha_n));
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
