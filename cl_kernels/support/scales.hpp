// What quantize and dequantize tell scales.clh about their scales.
#pragma once

#include <inlay/core/view.hpp>

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

struct Granularity {
  int type;                       // of scale
  index row_group, column_group;  // 0: one for all
};

template <class Op> Granularity granularity_of(const Op& op) {
  const auto group = [](index groups, index of) { return groups == 1 ? index{0} : of > 0 ? of : index{1}; };
  return {static_cast<int>(op.scale.dtype), group(op.scale.extents[0], op.row_group),
          group(op.scale.extents[1], op.column_group)};
}

// Two rows of nibbles may share a byte: a group has both of them (ROWS_A_GROUP of codes.clh).
inline index row_groups(index rows, DType code) { return bits(code) < 8 ? groups_of(rows, 2) : rows; }

}  // namespace inlay::cl
