// A line through every element: the operator to copy when you write a new one.
//
//   y[t,:] = slope * x[t,:] + intercept[:]                        (your paper or system here)
//
// State here what the equation leaves open: accumulation is f32 for every input type, and the result
// is rounded once, to y's type.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct Skeleton {
  ConstView<2, Space> x;               // [tokens, dim]  f32 f16 bf16; row stride free
  ConstView<1, Space> intercept = {};  // [dim]          optional, f32
  View<2, Space> y;                    // [tokens, dim]  x's type; may be x itself
  float slope = 1;                     // finite

  // Named once: check messages, verify, bindings and plan capture read this list.
  static constexpr std::string_view name = "skeleton";
  static constexpr auto fields = FieldList{in("x", &Skeleton::x), optional_in("intercept", &Skeleton::intercept),
                                           out("y", &Skeleton::y), scalar("slope", &Skeleton::slope)};
};

inline namespace INLAY_UNIT_ISA {

// Refuses everything that the comments above do not allow. Optional fields that were left out pass.
template <class Space> Status check(const Skeleton<Space>& op) {
  return Check(op)
      .dtype(op.x, floats)
      .dtype(op.intercept, DType::f32)
      .extent(op.intercept, 0, op.x.extents[1])
      .same_dtype(op.y, op.x)
      .same_shape(op.y, op.x)
      .finite(op.slope)
      .may_alias(op.y, op.x);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
