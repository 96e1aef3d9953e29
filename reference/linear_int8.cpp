#include <inlay/ops/linear_int8.hpp>

#include <algorithm>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

#include "reference/experts.hpp"

namespace inlay::reference {

namespace {

double entry(const ConstView<1>& view, index i, double otherwise) {
  return !view.present() ? otherwise : at(view, view.extents[0] == 1 ? index{0} : i);
}

// Activations of one token: q, what was clipped off it, and how to read it.
struct Token {
  std::vector<std::int64_t> q;
  std::vector<double> clipped;
  double scale, zero;
};

Token quantize_token(const LinearInt8<Host>& op, index t) {
  const index k = op.x.extents[1];
  Token token{std::vector<std::int64_t>(k), std::vector<double>(k), entry(op.x_scale, t, 1), entry(op.x_zero, t, 0)};
  if (!floats.contains(op.x.dtype)) {
    for (index i = 0; i < k; ++i) token.q[i] = static_cast<std::int64_t>(at(op.x, t, i));
    return token;
  }
  double low = 0, high = 0;
  bool finite = true;
  for (index i = 0; i < k; ++i) {
    finite = finite && std::isfinite(at(op.x, t, i));
    low = std::min(low, at(op.x, t, i));
    high = std::max(high, at(op.x, t, i));
  }
  if (!finite) {
    token.scale = std::nan("");
    return token;
  }
  if (!op.x_scale.present() && !op.asymmetric) {
    token.scale = round_to(DType::f32, std::max(-low, high) / 127);
  } else if (!op.x_scale.present()) {
    const double span = round_to(DType::f32, high - low);
    // Of a span beyond f32 the halves, as in quantize.
    token.scale = std::isfinite(span) ? round_to(DType::f32, span / 255)
                                      : round_to(DType::f32, round_to(DType::f32, high / 2 - low / 2) / 127.5);
    if (token.scale > 0)
      token.zero = round_to(DType::i8, round_to(DType::f32, -128 - round_to(DType::f32, low / token.scale)));
  }
  for (index i = 0; i < k; ++i) {
    double r = std::nearbyint(round_to(DType::f32, at(op.x, t, i) / token.scale));
    r = std::isnan(r) ? token.zero : r + token.zero;
    const double q = round_to(DType::i8, r);
    token.q[i] = static_cast<std::int64_t>(q);
    token.clipped[i] = op.shadow_outliers ? r - q : 0;
  }
  return token;
}

}  // namespace

template <> Status compute(const LinearInt8<Host>& op) {
  using namespace linear_int8;
  const index k = op.x.extents[1], n = op.y.extents[1], panels = groups_of(n, panel);
  for_each_expert(op, [&](index expert, index first, index end) {
    for (index t = first; t < end; ++t) {
      const Token token = quantize_token(op, t);
      for (index o = 0; o < n; ++o) {
        const index channel = expert * n + o;
        const auto weight_zero = static_cast<std::int64_t>(entry(op.weight_zero, channel, 0));
        std::int64_t acc = 0;
        double shadow = 0;
        for (index i = 0; i < k; ++i) {
          const auto w = static_cast<std::int64_t>(
              at(op.weight, expert * panels + o / panel, i / group, o % panel * group + i % group));
          acc += (token.q[i] - static_cast<std::int64_t>(token.zero)) * (w - weight_zero);
          shadow += token.clipped[i] * static_cast<double>(w - weight_zero);
        }
        if (op.y.dtype == DType::i32) {
          put(op.y, t, o, static_cast<double>(acc));
          continue;
        }
        double value = (static_cast<double>(acc) + shadow) * token.scale * entry(op.weight_scale, channel, 1) +
                       entry(op.bias, channel, 0);
        if (op.y_scale.present()) {
          value = std::nearbyint(value / at(op.y_scale, 0));
          value = (std::isnan(value) ? 0 : value) + entry(op.y_zero, 0, 0);
        }
        put(op.y, t, o, value);
      }
    }
  });
  return {};
}

}  // namespace inlay::reference
