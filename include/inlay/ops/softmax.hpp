// Softmax over the last dimension.
//
//   s[h,r,:] = scale * x[h,r,:] + mask[h,r,:]
//   y[h,r,j] = exp(s[j] - m) / (sum_k exp(s[k] - m) + exp(sink[h] - m))      m = max(s, sink)
//
// With log: y[h,r,j] = s[j] - m - ln(that denominator).
//
// Masked is true minus infinity: what x holds under a mask, NaN included, never reaches y. A row
// that is masked whole gives zeros (log: minus infinity). NaN or +infinity in sight makes a row NaN.
// Sums run in f32 by fixed pieces of a row: results do not depend on the number of threads.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct Softmax {
  ConstView<3, Space> x;          // [heads, rows, n]  f32 f16 bf16; strides free
  ConstView<3, Space> mask = {};  // [heads or 1, rows or 1, n]  bool (true: masked), or f32 or x's type (added)
  ConstView<1, Space> sink = {};  // [heads]  f32; takes part in the denominator only
  View<3, Space> y;               // [heads, rows, n]  x's type or f32; may be x itself
  float scale = 1;
  bool log = false;

  static constexpr std::string_view name = "softmax";
  static constexpr auto fields =
      FieldList{in("x", &Softmax::x),  optional_in("mask", &Softmax::mask), optional_in("sink", &Softmax::sink),
                out("y", &Softmax::y), scalar("scale", &Softmax::scale),    scalar("log", &Softmax::log)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Softmax<Space>& op) {
  const auto spans = [&](std::size_t d) { return op.mask.extents[d] == 1 || op.mask.extents[d] == op.x.extents[d]; };
  return Check(op)
      .dtype(op.x, floats)
      .dtype(op.mask, DTypes{DType::boolean, DType::f32, op.x.dtype})
      .extent(op.mask, 2, op.x.extents[2])
      .that(!op.mask.present() || (spans(0) && spans(1)), op.mask,
            [&] {
              return "has shape " + format_shape<3>(op.mask.extents) + "; each dimension must be 1 or that of x, " +
                     format_shape<3>(op.x.extents);
            })
      .dtype(op.sink, DType::f32)
      .extent(op.sink, 0, op.x.extents[0])
      .dtype(op.y, DTypes{DType::f32, op.x.dtype})
      .same_shape(op.y, op.x)
      .finite(op.scale)
      .may_alias(op.y, op.x);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
