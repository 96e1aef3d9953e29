// Where the elements of a view lie, whatever its rank and its space: what is asked of views before they are computed
// with is compiled once, not for every type of view.
//
//   fits_memory(view)      extents and strides that memory can have
//   elements_apart(view)   no two elements share memory
//   byte_range(view)       the bytes that its elements lie in
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/overflow.hpp>
#include <inlay/core/space.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

// Points into its view.
struct Layout {
  static constexpr int max_rank = 8;

  DType dtype;
  int rank;
  const index* extents;
  const index* strides;

  Layout() = default;
  template <class V>
  requires requires { typename V::space; }
  INLAY_INLINE constexpr Layout(const V& view)
      : dtype(view.dtype), rank(V::rank), extents(view.extents.data()), strides(view.strides.data()) {
    static_assert(V::rank <= max_rank);
  }

  INLAY_INLINE constexpr bool empty() const {
    for (int d = 0; d < rank; ++d)
      if (extents[d] == 0) return true;
    return false;
  }
};

inline namespace INLAY_UNIT_ISA {

constexpr bool same_layout(const Layout& a, const Layout& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d)
    if (a.extents[d] != b.extents[d] || a.strides[d] != b.strides[d]) return false;
  return true;
}

// True of nearly all views that are not nonsense, and quickly known: no number is negative or has more bits than its
// share of those that a product of all may have.
constexpr bool surely_fits_memory(const Layout& view) {
  constexpr std::array<int, Layout::max_rank + 1> extent_bits{0, 27, 27, 18, 13, 10, 9, 7, 6};  // 54 / rank, or half
  std::uint64_t extents = 0, strides = 0;
  for (int d = 0; d < view.rank; ++d) {
    extents |= static_cast<std::uint64_t>(view.extents[d]);
    strides |= static_cast<std::uint64_t>(view.strides[d]);
  }
  const int bits_of_extent = extent_bits[static_cast<std::size_t>(view.rank)];
  return extents >> bits_of_extent == 0 && strides >> (51 - bits_of_extent) == 0;
}

// Extents and strides that memory can have: fewer than 2^57 bytes, which is what addresses reach, both for the elements
// and for the offsets from one of them to any other. With that, neither a size nor an offset of the view, nor a small
// multiple of them, wraps. An extent of 0 counts as 1: what a kernel makes of the other extents is to fit, too. The
// products are formed in double, which does not wrap either.
constexpr bool fits_memory(const Layout& view) {
  double elements = bits(view.dtype), reach = 0;
  for (int d = 0; d < view.rank; ++d) {
    const double extent = view.extents[d] > 1 ? static_cast<double>(view.extents[d]) : 1;
    const double stride = static_cast<double>(view.strides[d]) * bits(view.dtype);
    elements *= extent;
    reach += (stride < 0 ? -stride : stride) * extent;
  }
  return elements < 0x1p60 && reach < 0x1p60;
}

// True where no two elements share memory. Dimensions are nested in the order of their strides, each of which must step
// over what lies within it; that other views may have elements apart as well is of no use to anyone.
constexpr bool elements_apart(const Layout& view) {
  index within = 1;
  bool in_order = true;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.extents[d] <= 1) continue;
    in_order = in_order && view.strides[d] >= within;
    within = view.strides[d] * view.extents[d];
  }
  if (in_order) return true;
  struct Dimension {
    index stride, extent;
  };
  std::array<Dimension, Layout::max_rank> nested{};  // from the innermost on
  std::size_t count = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    if (view.extents[d] <= 1) continue;
    const index stride = view.strides[d] < 0 ? -view.strides[d] : view.strides[d];
    std::size_t place = count++;
    for (; place > 0 && nested[place - 1].stride > stride; --place) nested[place] = nested[place - 1];
    nested[place] = {stride, view.extents[d]};
  }
  index covered = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (nested[i].stride < covered) return false;
    covered += nested[i].stride * (nested[i].extent - 1);
  }
  return true;
}

// The bytes of a view that has elements and that Check has let pass (its offsets fit), as offsets in its allocation, in
// which its first element is at `first`.
struct ByteRange {
  std::ptrdiff_t begin, end;  // half open
};
constexpr ByteRange byte_range(const Layout& view, std::ptrdiff_t first) {
  index low = 0, high = 0;
  for (int d = 0; d < view.rank; ++d) {
    const index reach = view.strides[d] * (view.extents[d] - 1);
    (reach < 0 ? low : high) += reach;
  }
  const int width = bits(view.dtype);
  const std::ptrdiff_t begin = first + low * width / 8;
  return {begin, begin + ((high - low) * width + width + 7) / 8};
}
template <class V> ByteRange byte_range(const V& view) {
  return byte_range(view, SpacePointer<typename V::space>::byte_offset(view.data));
}

// Its rows, as its largest stride parts them: one begins each `period` bytes and covers `span` of them.
struct Rows {
  std::ptrdiff_t period, span;  // period 0: there is but one, or no whole number of bytes
};
constexpr Rows rows_of(const Layout& view) {
  const auto magnitude = [](index step) { return step < 0 ? -step : step; };
  const int width = bits(view.dtype);
  index largest = 0, within = 0;
  for (int d = 0; d < view.rank; ++d)
    if (view.extents[d] > 1 && magnitude(view.strides[d]) > largest) largest = magnitude(view.strides[d]);
  for (int d = 0; d < view.rank; ++d)
    if (const index step = magnitude(view.strides[d]); step != largest) within += step * (view.extents[d] - 1);
  return {largest * width % 8 == 0 ? largest * width / 8 : 0, (within * width + width + 7) / 8};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
