// Lists of ids: every entry must name a row that exists. The message names the entry.
#pragma once

#include <string_view>

#include <inlay/core/inline.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/text.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

// Entry i of a list of i32 or i64 in host memory. Kernels call it too: never out of line.
template <class V> [[gnu::always_inline]] inline index entry(const V& list, index i) {
  const index at = i * list.strides[0];
  return list.dtype == DType::i64 ? list.template as<std::int64_t>()[at] : list.template as<std::int32_t>()[at];
}

// Refuses an entry outside 0..rows-1. A list that was left out has none; a device's memory is not read.
template <class Space> Status check_entries(std::string_view name, const ConstView<1, Space>& list, index rows) {
  if constexpr (std::is_same_v<Space, Host>) {
    for (index i = 0; i < list.extents[0]; ++i)
      if (const index value = entry(list, i); value < 0 || value >= rows)
        return invalid(Text(name) + "[" + number(i) + "] is " + number(value) + "; it must be in 0.." +
                       number(rows - 1));
  }
  return {};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
