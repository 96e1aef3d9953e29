// Small integers to numbers: the inverse of quantize.
//
//   y[t,i] = (x[t,i] - z) * s                                     s, z: the scale and zero of (t, i)
//
// The granularities are those of quantize. Rounding points: the product is rounded to f32, then to
// y's type; so every backend gives the same numbers.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/ops/quantize.hpp>

namespace inlay {

template <class Space = Host> struct Dequantize {
  ConstView<2, Space> x;          // [rows, cols]  i8 u8 i4 u4; row stride free
  ConstView<2, Space> scale;      // [1 | rows | ceil(rows / row_group), 1 | cols | ceil(cols / column_group)]
                                  //               f32 f16 bf16
  ConstView<2, Space> zero = {};  // as scale      x's type
  View<2, Space> y;               // [rows, cols]  f32 f16 bf16; row stride free
  index row_group = 0;            // as in quantize
  index column_group = 0;

  static constexpr std::string_view name = "dequantize";
  static constexpr auto fields = FieldList{in("x", &Dequantize::x),
                                           in("scale", &Dequantize::scale),
                                           optional_in("zero", &Dequantize::zero),
                                           out("y", &Dequantize::y),
                                           scalar("row_group", &Dequantize::row_group),
                                           scalar("column_group", &Dequantize::column_group)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Dequantize<Space>& op) {
  return Check(op)
      .dtype(op.x, quantized_types)
      .dtype(op.y, floats)
      .same_shape(op.y, op.x)
      .at_least(op.row_group, 0)
      .at_least(op.column_group, 0)
      .dtype(op.scale, floats)
      .that(detail::serves(op.scale.extents[0], op.x.extents[0], op.row_group), op.scale,
            [&] {
              return "has shape " + format_shape<2>(op.scale.extents) + "; its rows must be 1, " +
                     number(op.x.extents[0]) + " or those divided by row_group, rounded up";
            })
      .that(detail::serves(op.scale.extents[1], op.x.extents[1], op.column_group), op.scale,
            [&] {
              return "has shape " + format_shape<2>(op.scale.extents) + "; its columns must be 1, " +
                     number(op.x.extents[1]) + " or those divided by column_group, rounded up";
            })
      .same_dtype(op.zero, op.x)
      .same_shape(op.zero, op.scale);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
