#include <inlay/ops/rope.hpp>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

template <> Status compute(const RopeTable<Host>& op) {
  for (index t = 0; t < op.cos.extents[0]; ++t)
    for (index i = 0; i < op.cos.extents[1]; ++i) {
      double frequency = at(op.inv_freq, 0, i);
      if (op.inv_freq.extents[0] == 2) frequency += at(op.inv_freq, 1, i);
      const index axis = op.axis.present() ? entry(op.axis, i) : 0;
      const double angle = at(op.positions, axis, t) * frequency;
      put(op.cos, t, i, op.magnitude * std::cos(angle));
      put(op.sin, t, i, op.magnitude * std::sin(angle));
    }
  return {};
}

template <> Status compute(const Rope<Host>& op) {
  const index pairs = op.cos.extents[1];
  for (index t = 0; t < op.x.extents[0]; ++t) {
    const index row = op.positions.present() ? entry(op.positions, t) : t;
    for (index h = 0; h < op.x.extents[1]; ++h) {
      for (index i = 0; i < op.x.extents[2]; ++i)
        if (i < op.first || i >= op.first + 2 * pairs) put(op.y, t, h, i, at(op.x, t, h, i));
      for (index i = 0; i < pairs; ++i) {
        const index first = op.first + (op.interleaved ? 2 * i : i), second = first + (op.interleaved ? 1 : pairs);
        const double a = at(op.x, t, h, first), b = at(op.x, t, h, second);
        const double c = at(op.cos, row, i), s = at(op.sin, row, i);
        put(op.y, t, h, first, a * c - b * s);
        put(op.y, t, h, second, a * s + b * c);
      }
    }
  }
  return {};
}

}  // namespace inlay::reference
