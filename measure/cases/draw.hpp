// What random structs are made of: extents around tiles and zero, layouts, operands in guarded memory.
#pragma once

#include <initializer_list>
#include <limits>
#include <random>
#include <vector>

#include <inlay/core/element.hpp>

#include "measure/cases/memory.hpp"

namespace inlay::cases {

inline constexpr index largest = std::numeric_limits<index>::max(), least = std::numeric_limits<index>::min();

class Draw {
 public:
  Draw(Rooms& rooms, std::uint64_t seed) : rooms_(rooms), rng_(seed) {}

  std::uint64_t bits64() { return rng_(); }
  index below(index n) { return static_cast<index>(rng_() % static_cast<std::uint64_t>(n)); }
  index between(index low, index high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  double real(double low, double high) { return low + (high - low) * 0x1p-53 * static_cast<double>(rng_() >> 11); }
  template <class T> T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<index>(list.size()))];
  }
  DType floats() { return pick({DType::f32, DType::f16, DType::bf16}); }
  DType ids() { return pick({DType::i32, DType::i64}); }

  // Small, or next to what kernels cut by; seldom nothing.
  index extent(index most) {
    if (chance(4)) return 0;
    const index n = chance(50) ? between(1, 5) : pick<index>({7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70});
    return n < most ? n : most;
  }
  // Rows of something; now and then more rows than there can be, of nothing.
  std::array<index, 2> rows(index max_rows = 9, index most = 70) {
    if (chance(2)) return {index{1} << 40, 0};
    if (chance(1)) return {0, index{1} << 40};
    return {extent(max_rows), extent(most)};
  }

  // What is read: rows apart, in another order, backwards, or one for all.
  template <int Rank>
  ConstView<Rank> in(DType type, const std::array<index, Rank>& extents, double low = -1, double high = 1) {
    ConstView<Rank> view(nullptr, type, extents);
    lay_out(view, true);
    place(view);
    fill(view, low, high);
    return view;
  }
  template <int Rank>
  ConstView<Rank> contiguous(DType type, const std::array<index, Rank>& extents, double low = -1, double high = 1) {
    ConstView<Rank> view(nullptr, type, extents);
    place(view);
    fill(view, low, high);
    return view;
  }
  // What is written holds any bytes before.
  template <int Rank> View<Rank> out(DType type, const std::array<index, Rank>& extents, bool strided = true) {
    View<Rank> view(nullptr, type, extents);
    if (strided) lay_out(view, false);
    place(view);
    any_bytes(view);
    return view;
  }
  // Indices: low .. high.
  template <int Rank>
  ConstView<Rank> indices(DType type, const std::array<index, Rank>& extents, index low, index high) {
    return contiguous<Rank>(type, extents, static_cast<double>(low), static_cast<double>(high));
  }
  ConstView<1> list(DType type, const std::vector<index>& values) {
    ConstView<1> view(nullptr, type, {static_cast<index>(values.size())});
    place(view);
    for (std::size_t i = 0; i < values.size(); ++i) set(view, static_cast<index>(i), static_cast<double>(values[i]));
    return view;
  }
  // 0, then ends that never fall, at most `most`.
  ConstView<1> indptr(index count, index most) {
    std::vector<index> ends(static_cast<std::size_t>(count + 1), 0);
    for (std::size_t i = 1; i < ends.size(); ++i) ends[i] = between(ends[i - 1], most);
    return list(ids(), ends);
  }
  // The same memory, to write to.
  template <int Rank> static View<Rank> over(const ConstView<Rank>& view) {
    return {const_cast<void*>(view.data), view.dtype, view.extents, view.strides};
  }

  // Strides as a caller may have them.
  template <class V> void lay_out(V& view, bool read) {
    index step = 1;
    const bool reverse = V::rank > 2 && chance(15);  // heads before tokens, for example
    for (int i = 0; i < V::rank; ++i) {
      const int d = i == 0 || !reverse ? V::rank - 1 - i : i - 1;
      view.strides[d] = step;
      if (i > 0 && chance(10) && bits(view.dtype) >= 8) view.strides[d] = -step;
      if (i > 0 && read && chance(6)) view.strides[d] = 0;
      step *= view.extents[d] > 1 && view.extents[d] < 4096 ? view.extents[d] : 1;
      if (chance(20)) step += between(1, 5);
    }
  }

  // Gives the view memory of its own, or one that faults where it has more than a room.
  template <class V> bool place(V& view) {
    const Extent extent = extent_of(view, rooms_.bytes());
    const std::size_t room = next_++;
    if (!extent.fits) {
      // What check reads (tables, lengths, ids) cannot be promised and lacking at once.
      const bool read_by_check = view.dtype == DType::i32 || view.dtype == DType::i64;
      view.data = read_by_check ? nullptr : rooms_.end(room);
      return false;
    }
    std::byte* const begin = chance(25) ? rooms_.begin(room) : rooms_.end(room) - extent.bytes;
    placed_.push_back({begin, extent.bytes});
    view.data = begin + extent.first;
    return true;
  }
  template <class V> void fill(V& view, double low, double high) {
    for_bytes(view, [&](std::byte* begin, std::size_t bytes) {
      const bool integral = view.dtype > DType::bf16;
      const index count = static_cast<index>(bytes) * 8 / bits(view.dtype);
      for (index i = 0; i < count; ++i)
        store_element(begin, view.dtype, i, integral ? std::floor(real(low, high + 1)) : real(low, high));
    });
  }
  template <class V> void any_bytes(V& view) {
    for_bytes(view, [&](std::byte* begin, std::size_t bytes) {
      for (std::size_t i = 0; i < bytes; ++i)
        begin[i] = static_cast<std::byte>(view.dtype == DType::boolean ? below(2) : below(256));
    });
  }
  // Element i of a list, or of memory in which elements lie side by side.
  template <class V> static void set(const V& view, index i, double value) {
    store_element(const_cast<void*>(static_cast<const void*>(view.data)), view.dtype, i, value);
  }
  template <class V> bool owns(const V& view) const {
    for (const Placed& one : placed_)
      if (static_cast<const std::byte*>(view.data) >= one.begin &&
          static_cast<const std::byte*>(view.data) < one.begin + one.bytes)
        return true;
    return false;
  }

  std::vector<Placed>& placed() { return placed_; }
  // What the placed memory holds now; put back by restore().
  void remember() {
    for (Placed& one : placed_) one.before.assign(one.begin, one.begin + one.bytes);
  }
  void restore() {
    for (Placed& one : placed_)
      if (one.bytes > 0) std::memcpy(one.begin, one.before.data(), one.bytes);
  }
  std::vector<ConstView<3>> lists[2];  // what spans of views look at

 private:
  // The bytes that place() gave to the view.
  template <class V, class Visit> void for_bytes(const V& view, Visit&& visit) {
    for (Placed& one : placed_)
      if (one.bytes > 0 && static_cast<const std::byte*>(view.data) >= one.begin &&
          static_cast<const std::byte*>(view.data) < one.begin + one.bytes)
        visit(one.begin, one.bytes);
  }

  Rooms& rooms_;
  std::mt19937_64 rng_;
  std::size_t next_ = 0;
  std::vector<Placed> placed_;
};

}  // namespace inlay::cases
