#include <inlay/ops/quantize.hpp>

#include <algorithm>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

namespace {

// The rounding point of the contract: a double quotient of two floats rounds to f32 as if rounded
// once (53 bits are more than 2 * 24 + 1).
double code(DType type, double x, double scale, double zero) {
  const double quotient = std::nearbyint(round_to(DType::f32, x / scale));
  return round_to(type, (std::isnan(quotient) ? 0 : quotient) + zero);
}

index group_of(index groups, index i, index group) { return group > 0 ? i / group : groups == 1 ? 0 : i; }

struct Row {
  double scale, zero;
};

Row dynamic_row(const Quantize<Host>& op, index t) {
  double low = 0, high = 0;
  for (index i = 0; i < op.x.extents[1]; ++i) {
    const double value = at(op.x, t, i);
    if (!std::isfinite(value)) return {std::nan(""), 0};
    low = std::min(low, value);
    high = std::max(high, value);
  }
  const bool narrow = bits(op.y.dtype) == 4;
  if (!op.row_zero.present()) return {round_to(DType::f32, std::max(-low, high) / (narrow ? 7 : 127)), 0};
  const double lowest = round_to(op.y.dtype, -1e9), highest = round_to(op.y.dtype, 1e9);
  const double span = round_to(DType::f32, high - low);
  // Of a span beyond f32 the halves: their quotient has the same bits, and is finite.
  const double scale = std::isfinite(span)
                           ? round_to(DType::f32, span / (highest - lowest))
                           : round_to(DType::f32, round_to(DType::f32, high / 2 - low / 2) / ((highest - lowest) / 2));
  if (!(scale > 0)) return {scale, 0};
  const double zero = round_to(DType::f32, lowest - round_to(DType::f32, low / scale));
  return {scale, round_to(op.y.dtype, zero)};
}

}  // namespace

template <> Status compute(const Quantize<Host>& op) {
  for (index t = 0; t < op.x.extents[0]; ++t) {
    if (op.row_scale.present()) {
      const Row row = dynamic_row(op, t);
      put(op.row_scale, t, row.scale);
      if (op.row_zero.present()) put(op.row_zero, t, row.zero);
      for (index i = 0; i < op.x.extents[1]; ++i)
        put(op.y, t, i, code(op.y.dtype, at(op.x, t, i), row.scale, row.zero));
      continue;
    }
    const index row = group_of(op.scale.extents[0], t, op.row_group);
    for (index i = 0; i < op.x.extents[1]; ++i) {
      const index column = group_of(op.scale.extents[1], i, op.column_group);
      const double zero = op.zero.present() ? at(op.zero, row, column) : 0;
      put(op.y, t, i, code(op.y.dtype, at(op.x, t, i), at(op.scale, row, column), zero));
    }
  }
  return {};
}

}  // namespace inlay::reference
