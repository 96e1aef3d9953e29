// Non-owning tensors: run-time dtype, compile-time rank, and the memory space in the type, so that
// host pointers and device memory cannot be mixed up.
//
//   View<2> x(data, {tokens, dim});                       contiguous
//   View<2> q(qkv, {tokens, dim}, {3 * dim, 1});          the q part of a fused row
//   ConstView<2> rows = x.slice(0, 16, 8);                tokens 16..23
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/overflow.hpp>
#include <inlay/core/space.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

template <int Rank> using IndexArray = std::array<index, static_cast<std::size_t>(Rank)>;

template <int Rank> constexpr IndexArray<Rank> contiguous_strides(const IndexArray<Rank>& extents) {
  IndexArray<Rank> strides{};
  index step = 1;
  for (std::size_t d = Rank; d-- > 0;) {
    strides[d] = step;
    step = saturating_multiply(step, extents[d]);
  }
  return strides;
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

// What View and ConstView share. Strides count elements and may be zero (broadcast, of what is only read) or, but for
// i4 and u4, negative.
template <int Rank, class Space, class Pointer, class Self> struct BasicView {
  static_assert(Rank >= 1);
  static constexpr int rank = Rank;
  using space = Space;
  using Extents = IndexArray<Rank>;

  Pointer data{};
  DType dtype = DType::f32;
  Extents extents{};
  Extents strides{};

  INLAY_INLINE constexpr BasicView() = default;
  INLAY_INLINE constexpr BasicView(Pointer pointer, DType type, const Extents& shape)
      : data(pointer), dtype(type), extents(shape), strides(contiguous_strides<Rank>(shape)) {}
  INLAY_INLINE constexpr BasicView(Pointer pointer, DType type, const Extents& shape, const Extents& steps)
      : data(pointer), dtype(type), extents(shape), strides(steps) {}

  // The largest index where the product does not fit one: no view that Check lets pass.
  INLAY_INLINE constexpr index size() const {
    index product = 1;
    for (index extent : extents) product = saturating_multiply(product, extent);
    return product;
  }
  INLAY_INLINE constexpr bool empty() const {
    for (index extent : extents)
      if (extent == 0) return true;
    return false;
  }
  // An optional field that was left out: no memory and no extent.
  // A loop: GCC makes a call of memcmp out of comparing arrays, and kernels ask this in inner loops.
  INLAY_INLINE constexpr bool present() const {
    if (data != Pointer{}) return true;
    for (index extent : extents)
      if (extent != 0) return true;
    return false;
  }
  INLAY_INLINE constexpr bool contiguous() const {
    index step = 1;
    for (std::size_t d = Rank; d-- > 0;) {
      if (extents[d] != 1 && strides[d] != step) return false;
      step = saturating_multiply(step, extents[d]);
    }
    return true;
  }

  // Elements begin .. begin + count of one dimension.
  INLAY_INLINE constexpr Self slice(int dimension, index begin, index count) const {
    Self part(data, dtype, extents, strides);
    const auto d = static_cast<std::size_t>(dimension);
    part.extents[d] = count;
    part.data = SpacePointer<Space>::advance(data, begin * strides[d] * bits(dtype) / 8);
    return part;
  }
};

}  // namespace detail

template <int Rank, class Space = Host>
struct View : detail::BasicView<Rank, Space, typename SpacePointer<Space>::Mutable, View<Rank, Space>> {
  using Base = detail::BasicView<Rank, Space, typename SpacePointer<Space>::Mutable, View<Rank, Space>>;
  using Base::Base;
  INLAY_INLINE constexpr View() = default;

  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T> && !std::is_const_v<T>) INLAY_INLINE
      constexpr View(T* pointer, const typename Base::Extents& shape)
      : Base(pointer, dtype_of<T>, shape) {}
  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T> && !std::is_const_v<T>) INLAY_INLINE
      constexpr View(T* pointer, const typename Base::Extents& shape, const typename Base::Extents& steps)
      : Base(pointer, dtype_of<T>, shape, steps) {}

  // The elements as T, of memory that the host can touch. The caller has checked the dtype.
  template <class T> INLAY_INLINE T* as() const { return static_cast<T*>(this->data); }
};

template <int Rank, class Space = Host>
struct ConstView : detail::BasicView<Rank, Space, typename SpacePointer<Space>::Const, ConstView<Rank, Space>> {
  using Base = detail::BasicView<Rank, Space, typename SpacePointer<Space>::Const, ConstView<Rank, Space>>;
  using Base::Base;
  INLAY_INLINE constexpr ConstView() = default;
  INLAY_INLINE constexpr ConstView(const View<Rank, Space>& view)
      : Base(view.data, view.dtype, view.extents, view.strides) {}

  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T>) INLAY_INLINE
      constexpr ConstView(const T* pointer, const typename Base::Extents& shape)
      : Base(pointer, dtype_of<T>, shape) {}
  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T>) INLAY_INLINE
      constexpr ConstView(const T* pointer, const typename Base::Extents& shape, const typename Base::Extents& steps)
      : Base(pointer, dtype_of<T>, shape, steps) {}

  template <class T> INLAY_INLINE const T* as() const { return static_cast<const T*>(this->data); }
};

inline namespace INLAY_UNIT_ISA {

// The element offset of a multi-index.
template <class V, class... I>
requires(sizeof...(I) == V::rank) constexpr index offset(const V& view, I... i) {
  index sum = 0;
  std::size_t d = 0;
  ((sum += static_cast<index>(i) * view.strides[d++]), ...);
  return sum;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
