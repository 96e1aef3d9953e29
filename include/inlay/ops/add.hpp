// Residual addition, or a bias for every row.
//
//   y[t,i] = a[t,i] + b[t,i]          b of one row: y[t,i] = a[t,i] + b[0,i]
//
// Added in f32, rounded once to y's type. A bf16 branch may be added to an f32 residual stream.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct Add {
  ConstView<2, Space> a;  // [tokens, dim]       f32 f16 bf16; row stride free
  ConstView<2, Space> b;  // [tokens or 1, dim]  f32 f16 bf16
  View<2, Space> y;       // [tokens, dim]       a's type; may be a or b itself

  static constexpr std::string_view name = "add";
  static constexpr auto fields = FieldList{in("a", &Add::a), in("b", &Add::b), out("y", &Add::y)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Add<Space>& op) {
  return Check(op)
      .dtype(op.a, floats)
      .dtype(op.b, floats)
      .extent(op.b, 1, op.a.extents[1])
      .that(op.b.extents[0] == 1 || op.b.extents[0] == op.a.extents[0], op.b,
            [&] { return "has " + number(op.b.extents[0]) + " rows; it must have 1 or " + number(op.a.extents[0]); })
      .same_dtype(op.y, op.a)
      .same_shape(op.y, op.a)
      .may_alias(op.y, op.a)
      .may_alias(op.y, op.b);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
