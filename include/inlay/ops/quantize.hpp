// Numbers to small integers.                                      Jacob et al., 2018
//
//   y[t,i] = saturate(round(x[t,i] / s) + z)                      s, z: the scale and zero of (t, i)
//
// Static: scale and zero are given for the whole tensor, for rows, for columns or for blocks:
//
//   scale [1, 1]      per tensor              scale [rows, 1]   per token
//   scale [1, cols]   per channel             scale [ceil(rows / row_group), ceil(cols / column_group)]
//
// Dynamic: row_scale is written, one scale a row from the row itself:
//
//   symmetric         s = max|row| / 127 (7 for i4), z = 0
//   asymmetric        row_zero is given too: low = min(row, 0), high = max(row, 0),
//                     s = (high - low) / 255 (15 for four bits), z = saturate(round(qmin - low / s))
//
// Four-bit codes lie two to a byte, the even element in the low nibble; a row may begin in mid-byte.
//
// Rounding points: s and x / s are rounded to f32, then to nearest even; so every backend gives the
// same integers. NaN (0 / 0 too) counts as 0 and gives z. A dynamic row that holds NaN or Inf has
// no scale: s is NaN, its y are z = 0, and whatever is dequantized from it is NaN.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

INLAY_HIDDEN inline constexpr DTypes quantized_types{DType::i8, DType::u8, DType::i4, DType::u4};

template <class Space = Host> struct Quantize {
  ConstView<2, Space> x;           // [rows, cols]  f32 f16 bf16; row stride free
  ConstView<2, Space> scale = {};  // see above     f32 f16 bf16; static only
  ConstView<2, Space> zero = {};   // as scale      y's type; optional, static only
  View<2, Space> y;                // [rows, cols]  i8 u8 i4 u4; row stride free
  View<1, Space> row_scale = {};   // [rows]        f32; dynamic only
  View<1, Space> row_zero = {};    // [rows]        y's type; dynamic asymmetric only
  index row_group = 0;             // rows that share a scale; 0: one or all of them, as scale's extent says
  index column_group = 0;          // columns that share a scale; 0: likewise

  static constexpr std::string_view name = "quantize";
  static constexpr auto fields = FieldList{in("x", &Quantize::x),
                                           optional_in("scale", &Quantize::scale),
                                           optional_in("zero", &Quantize::zero),
                                           out("y", &Quantize::y),
                                           optional_out("row_scale", &Quantize::row_scale),
                                           optional_out("row_zero", &Quantize::row_zero),
                                           scalar("row_group", &Quantize::row_group),
                                           scalar("column_group", &Quantize::column_group)};
};

namespace detail {

inline namespace INLAY_UNIT_ISA {

// True if `groups` scales serve `count` elements: one for all, one for each, or one for each `group`.
constexpr bool serves(index groups, index count, index group) {
  return group > 0 ? groups == groups_of(count, group) : groups == 1 || groups == count;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Quantize<Space>& op) {
  const bool dynamic = op.row_scale.present();
  const bool is_signed = op.y.dtype == DType::i8 || op.y.dtype == DType::i4;
  return Check(op)
      .dtype(op.x, floats)
      .dtype(op.y, quantized_types)
      .same_shape(op.y, op.x)
      .at_least(op.row_group, 0)
      .at_least(op.column_group, 0)
      .that(op.scale.present() != dynamic, op.scale, "must be given, or row_scale instead; not both")
      .dtype(op.scale, floats)
      .that(dynamic || detail::serves(op.scale.extents[0], op.x.extents[0], op.row_group), op.scale,
            [&] {
              return "has shape " + format_shape<2>(op.scale.extents) + "; its rows must be 1, " +
                     number(op.x.extents[0]) + " or those divided by row_group, rounded up";
            })
      .that(dynamic || detail::serves(op.scale.extents[1], op.x.extents[1], op.column_group), op.scale,
            [&] {
              return "has shape " + format_shape<2>(op.scale.extents) + "; its columns must be 1, " +
                     number(op.x.extents[1]) + " or those divided by column_group, rounded up";
            })
      .that(!op.zero.present() || !dynamic, op.zero, "must be left out where row_scale is given")
      .same_dtype(op.zero, op.y)
      .same_shape(op.zero, op.scale)
      .dtype(op.row_scale, DType::f32)
      .extent(op.row_scale, 0, op.x.extents[0])
      .that(!op.row_zero.present() || dynamic, op.row_zero, "must be left out where row_scale is")
      .that(!dynamic || is_signed || op.row_zero.present(), op.row_zero, "must be given with u8 or u4 output")
      .same_dtype(op.row_zero, op.y)
      .extent(op.row_zero, 0, op.x.extents[0]);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
