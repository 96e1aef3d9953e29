#include <inlay/ops/gelu.hpp>

#include <algorithm>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

namespace {

// erfc and the sigmoid in place of 1 + erf and 1 + tanh: the same functions without cancellation.
double gelu(const Gelu<Host>& op, double x) {
  const double root_half = std::sqrt(0.5), root_2_over_pi = std::sqrt(2 / 3.14159265358979323846);
  const double cap = op.cap, alpha_p = op.alpha_p, alpha_n = op.alpha_n, beta = op.beta, eps = op.eps;
  switch (op.form) {
    case GeluForm::erf: return x / 2 * std::erfc(-x * root_half);
    case GeluForm::tanh: return x / (1 + std::exp(-2 * root_2_over_pi * (x + 0.044715 * x * x * x)));
    case GeluForm::quick: return x / (1 + std::exp(-1.702 * x));
    case GeluForm::relu_squared: return x < 0 ? 0 : x * x;
    case GeluForm::softcap: return cap * std::tanh(x / cap);
    case GeluForm::xielu:
      return x > 0 ? (alpha_p * x + beta) * x : alpha_n * std::expm1(std::min(x, eps)) + (beta - alpha_n) * x;
  }
  return x;
}

}  // namespace

template <> Status compute(const Gelu<Host>& op) {
  for (index t = 0; t < op.x.extents[0]; ++t)
    for (index i = 0; i < op.x.extents[1]; ++i)
      put(op.y, t, i, gelu(op, at(op.x, t, i)) * (op.up.present() ? at(op.up, t, i) : 1));
  return {};
}

}  // namespace inlay::reference
