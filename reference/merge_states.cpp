#include <inlay/ops/merge_states.hpp>

#include <cmath>
#include <limits>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const MergeStates<Host>& op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto& [states, tokens, heads, head_dim] = op.partial_out.extents;
  for (index t = 0; t < tokens; ++t)
    for (index h = 0; h < heads; ++h) {
      double m = -infinity, sum = 0;
      for (index s = 0; s < states; ++s) m = std::fmax(m, at(op.partial_lse, s, t, h));
      for (index s = 0; s < states; ++s)
        if (const double lse = at(op.partial_lse, s, t, h); lse != -infinity) sum += std::exp(lse - m);
      for (index d = 0; d < head_dim; ++d) {
        double out = 0;
        for (index s = 0; s < states; ++s)
          if (const double lse = at(op.partial_lse, s, t, h); lse != -infinity)
            out += std::exp(lse - m) / sum * at(op.partial_out, s, t, h, d);
        put(op.out, t, h, d, out);
      }
      if (op.lse.present()) put(op.lse, t, h, sum == 0 ? -infinity : m + std::log(sum));
    }
  return {};
}

}  // namespace inlay::reference
