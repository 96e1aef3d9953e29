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
#include <inlay/core/overflow.hpp>
#include <inlay/core/space.hpp>

namespace inlay {

template <int Rank> constexpr std::array<index, Rank> contiguous_strides(const std::array<index, Rank>& extents) {
  std::array<index, Rank> strides{};
  index step = 1;
  for (int d = Rank - 1; d >= 0; --d) {
    strides[d] = step;
    step = saturating_multiply(step, extents[d]);
  }
  return strides;
}

namespace detail {

// What View and ConstView share. Strides count elements and may be zero (broadcast, of what is only read) or, but for
// i4 and u4, negative.
template <int Rank, class Space, class Pointer, class Self> struct BasicView {
  static_assert(Rank >= 1);
  static constexpr int rank = Rank;
  using space = Space;
  using Extents = std::array<index, Rank>;

  Pointer data{};
  DType dtype = DType::f32;
  Extents extents{};
  Extents strides{};

  constexpr BasicView() = default;
  constexpr BasicView(Pointer pointer, DType type, const Extents& shape)
      : data(pointer), dtype(type), extents(shape), strides(contiguous_strides<Rank>(shape)) {}
  constexpr BasicView(Pointer pointer, DType type, const Extents& shape, const Extents& steps)
      : data(pointer), dtype(type), extents(shape), strides(steps) {}

  // The largest index where the product does not fit one: no view that Check lets pass.
  constexpr index size() const {
    index product = 1;
    for (index extent : extents) product = saturating_multiply(product, extent);
    return product;
  }
  constexpr bool empty() const {
    for (index extent : extents)
      if (extent == 0) return true;
    return false;
  }
  // An optional field that was left out: no memory and no extent.
  // A loop: GCC makes a call of memcmp out of comparing arrays, and kernels ask this in inner loops.
  constexpr bool present() const {
    if (data != Pointer{}) return true;
    for (index extent : extents)
      if (extent != 0) return true;
    return false;
  }
  constexpr bool contiguous() const {
    index step = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      if (extents[d] != 1 && strides[d] != step) return false;
      step = saturating_multiply(step, extents[d]);
    }
    return true;
  }

  // Elements begin .. begin + count of one dimension.
  constexpr Self slice(int dimension, index begin, index count) const {
    Self part(data, dtype, extents, strides);
    part.extents[dimension] = count;
    part.data = SpacePointer<Space>::advance(data, begin * strides[dimension] * bits(dtype) / 8);
    return part;
  }
};

}  // namespace detail

template <int Rank, class Space = Host>
struct View : detail::BasicView<Rank, Space, typename SpacePointer<Space>::Mutable, View<Rank, Space>> {
  using Base = detail::BasicView<Rank, Space, typename SpacePointer<Space>::Mutable, View<Rank, Space>>;
  using Base::Base;
  constexpr View() = default;

  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T> &&
           !std::is_const_v<T>) constexpr View(T* pointer, const typename Base::Extents& shape)
      : Base(pointer, dtype_of<T>, shape) {}
  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T> &&
           !std::is_const_v<T>) constexpr View(T* pointer, const typename Base::Extents& shape,
                                               const typename Base::Extents& steps)
      : Base(pointer, dtype_of<T>, shape, steps) {}

  // The elements as T, of memory that the host can touch. The caller has checked the dtype.
  template <class T> T* as() const { return static_cast<T*>(this->data); }
};

template <int Rank, class Space = Host>
struct ConstView : detail::BasicView<Rank, Space, typename SpacePointer<Space>::Const, ConstView<Rank, Space>> {
  using Base = detail::BasicView<Rank, Space, typename SpacePointer<Space>::Const, ConstView<Rank, Space>>;
  using Base::Base;
  constexpr ConstView() = default;
  constexpr ConstView(const View<Rank, Space>& view) : Base(view.data, view.dtype, view.extents, view.strides) {}

  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T>) constexpr ConstView(const T* pointer,
                                                                                  const typename Base::Extents& shape)
      : Base(pointer, dtype_of<T>, shape) {}
  template <class T>
  requires(std::is_same_v<Space, Host> && !std::is_void_v<T>) constexpr ConstView(const T* pointer,
                                                                                  const typename Base::Extents& shape,
                                                                                  const typename Base::Extents& steps)
      : Base(pointer, dtype_of<T>, shape, steps) {}

  template <class T> const T* as() const { return static_cast<const T*>(this->data); }
};

// The element offset of a multi-index.
template <class V, class... I>
requires(sizeof...(I) == V::rank) constexpr index offset(const V& view, I... i) {
  index sum = 0;
  int d = 0;
  ((sum += static_cast<index>(i) * view.strides[d++]), ...);
  return sum;
}

}  // namespace inlay
