#include <inlay/ops/softmax.hpp>

#include <limits>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const Softmax<Host>& op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const index n = op.x.extents[2];
  std::vector<double> s(static_cast<std::size_t>(n));
  for (index h = 0; h < op.x.extents[0]; ++h)
    for (index r = 0; r < op.x.extents[1]; ++r) {
      const double sink = op.sink.present() ? at(op.sink, h) : -infinity;
      double m = sink;
      for (index j = 0; j < n; ++j) {
        double mask = 0;
        if (op.mask.present()) mask = at(op.mask, op.mask.extents[0] == 1 ? 0 : h, op.mask.extents[1] == 1 ? 0 : r, j);
        const bool masked = op.mask.dtype == DType::boolean ? mask != 0 : mask == -infinity;
        s[j] = masked ? -infinity : op.scale * at(op.x, h, r, j) + mask;
        if (s[j] > m) m = s[j];
      }
      if (m == -infinity) m = 0;  // exp(-inf - 0) = 0 for all: no NaN from inf - inf
      double sum = std::exp(sink - m);
      for (index j = 0; j < n; ++j) sum += std::exp(s[j] - m);
      for (index j = 0; j < n; ++j)
        put(op.y, h, r, j,
            sum == 0 ? (op.log ? -infinity : 0)
            : op.log ? s[j] - m - std::log(sum)
                     : std::exp(s[j] - m) / sum);
    }
  return {};
}

}  // namespace inlay::reference
