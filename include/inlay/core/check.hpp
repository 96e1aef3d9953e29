// The vocabulary of a contract's check(). Each demand takes the fields themselves; the name is
// looked up in the operator's list only when a message is due, so a passing check costs compares.
//
//   return Check(op).dtype(op.x, floats).same_shape(op.y, op.x).extent(op.weight, 0, dim);
//
// What every operator wants is done for it, lists of views included: required views present, a dtype that there is,
// extents not negative, extents and strides that memory can have (fits_memory), innermost stride one, no negative
// stride of i4 and u4, memory where there are elements, aligned to them, and no output over itself, nor over another field
// unless may_alias.
//
// Demands are evaluated behind a refusal too: their arguments must not overflow or divide by zero whatever the fields
// hold (core/overflow.hpp).
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <type_traits>

#include <inlay/core/fields.hpp>
#include <inlay/core/overlap.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

template <int Rank> std::string format_shape(const std::array<index, Rank>& extents) {
  std::string text = "[";
  for (int d = 0; d < Rank; ++d) text += (d ? ", " : "") + std::to_string(extents[d]);
  return text + "]";
}

template <class T> std::string format_value(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_enum_v<T>)
    return std::to_string(static_cast<int>(value));
  else
    return std::to_string(value);
}

template <class Op> class Check {
 public:
  explicit Check(const Op& op) : op_(op) {
    for_each_field(op, [&](const auto& field, const auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (ViewLike<Value>) {
        if (!value.present()) {
          if (good() && !field.is_optional())
            status_ = invalid(std::string(field.name) + " is missing; it must be given");
        } else {
          check_view([&] { return std::string(field.name); }, value, field.is_written());
        }
      } else if constexpr (ListOfViews<Value>) {
        for (std::size_t i = 0; i < value.size(); ++i)
          check_view([&] { return std::string(field.name) + "[" + std::to_string(i) + "]"; }, value[i], false);
      }
    });
  }

  template <class V> Check& dtype(const V& view, DTypes allowed) {
    if (good() && shown(view) && !allowed.contains(view.dtype))
      fail(view, "has dtype " + std::string(inlay::name(view.dtype)) + "; it must be one of " + list(allowed));
    return *this;
  }
  template <class A, class B> Check& same_dtype(const A& view, const B& other) {
    if (good() && shown(view) && view.dtype != other.dtype)
      fail(view, "has dtype " + std::string(inlay::name(view.dtype)) + "; it must be " +
                     std::string(inlay::name(other.dtype)) + ", the dtype of " + name_of(other));
    return *this;
  }
  template <class V> Check& shape(const V& view, const std::array<index, V::rank>& expected) {
    if (good() && shown(view) && view.extents != expected)
      fail(view,
           "has shape " + format_shape<V::rank>(view.extents) + "; it must be " + format_shape<V::rank>(expected));
    return *this;
  }
  template <class A, class B> Check& same_shape(const A& view, const B& other) { return shape(view, other.extents); }
  template <class V> Check& extent(const V& view, int dimension, index expected) {
    if (good() && shown(view) && view.extents[dimension] != expected)
      fail(view, "has extent " + std::to_string(view.extents[dimension]) + " in dimension " +
                     std::to_string(dimension) + "; it must be " + std::to_string(expected));
    return *this;
  }
  // Rows may lie apart, elements may not: true of the innermost dimension for every view.
  // contiguous() asks it of all dimensions.
  template <class V> Check& contiguous(const V& view) {
    if (good() && shown(view) && !view.contiguous()) fail(view, "is strided; it must be contiguous");
    return *this;
  }
  // Two optional fields that make sense only together.
  template <class A, class B> Check& together(const A& a, const B& b) {
    if (good() && a.present() != b.present())
      fail(a, std::string("is ") + (a.present() ? "given" : "left out") + "; it must be " +
                  (b.present() ? "given, as " : "left out, as ") + name_of(b) + " is");
    return *this;
  }
  template <class T> Check& at_least(const T& value, std::type_identity_t<T> low) {
    if (good() && !(value >= low)) fail(value, must(value, "at least " + format_value(low)));
    return *this;
  }
  template <class T> Check& within(const T& value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
    if (good() && !(value >= low && value <= high))
      fail(value, must(value, "in " + format_value(low) + ".." + format_value(high)));
    return *this;
  }
  template <class T> Check& finite(const T& value) {
    if (good() && !std::isfinite(value)) fail(value, must(value, "finite"));
    return *this;
  }
  template <class T> Check& positive(const T& value) {
    if (good() && !(value > 0 && std::isfinite(value))) fail(value, must(value, "positive and finite"));
    return *this;
  }
  template <class T> Check& not_negative(const T& value) {
    if (good() && !(value >= 0 && std::isfinite(value))) fail(value, must(value, "zero or more, and finite"));
    return *this;
  }
  // Whatever has no word of its own: `field` is named, `what` goes on from the name.
  template <class T> Check& that(bool holds, const T& field, const char* what) {
    if (good() && !holds) fail(field, what);
    return *this;
  }
  template <class T, class Describe>
  requires std::is_invocable_r_v<std::string, Describe> Check& that(bool holds, const T& field, Describe&& what) {
    if (good() && !holds) fail(field, what());
    return *this;
  }
  // `written` may be `other` itself, element for element; a partial overlap stays refused.
  template <class A, class B> Check& may_alias(const A& written, const B& other) {
    allow(&written, &other);
    return *this;
  }
  // `written` and `other` may share memory in any way: a view into a cache that is also written.
  template <class A, class B> Check& may_overlap(const A& written, const B& other) {
    allow(&written, &other);
    free_ |= 1u << (pairs_ - 1);
    return *this;
  }

  // Have all demands so far been met? For those that only make sense behind others.
  bool good() const { return status_.ok(); }

  operator Status() {
    if (good()) check_overlaps();
    return std::move(status_);
  }

 private:
  static constexpr unsigned max_pairs = 16;

  template <class V> static bool shown(const V& view) { return view.present(); }

  // `name` makes the view's name when a message is due.
  template <class Name, class V> void check_view(Name&& name, const V& view, bool written) {
    if (!good()) return;
    const auto shape = [&] { return name() + " has shape " + format_shape<V::rank>(view.extents); };
    const auto strides = [&] { return " and strides " + format_shape<V::rank>(view.strides); };
    if (static_cast<int>(view.dtype) >= dtype_count) {
      status_ = invalid(name() + " has a dtype of number " + std::to_string(static_cast<int>(view.dtype)) +
                        "; it must be below " + std::to_string(dtype_count));
      return;
    }
    if (!surely_fits_memory(view)) {
      for (index extent : view.extents)
        if (extent < 0) {
          status_ = invalid(shape() + "; no extent may be negative");
          return;
        }
      if (!fits_memory(view)) {
        status_ = invalid(shape() + strides() + "; its elements must lie within 2^57 bytes");
        return;
      }
    }
    if (view.empty()) return;
    if (view.data == decltype(view.data){})
      status_ = invalid(shape() + " but no memory; its data must not be null");
    else if (const index bytes = bits(view.dtype) / 8; bytes > 1 && place_of(view) % bytes != 0)
      status_ = invalid(name() + " begins at a place that is no multiple of " + std::to_string(bytes) +
                        " bytes; it must be aligned to its elements, which are " + std::string(inlay::name(view.dtype)));
    else if (view.extents[V::rank - 1] > 1 && view.strides[V::rank - 1] != 1)
      status_ =
          invalid(name() + " has innermost stride " + std::to_string(view.strides[V::rank - 1]) + "; it must be 1");
    else if (bits(view.dtype) < 8 && steps_back(view))
      status_ = invalid(name() + " has strides " + format_shape<V::rank>(view.strides) +
                        "; none may be negative where two elements share a byte");
    else if (written && !elements_apart(view))
      status_ = invalid(shape() + strides() + "; no two of its elements may share memory");
  }
  // In its allocation; an address on the host.
  template <class V> static std::ptrdiff_t place_of(const V& view) {
    return SpacePointer<typename V::space>::byte_offset(view.data);
  }
  template <class V> static bool steps_back(const V& view) {
    for (int d = 0; d < V::rank; ++d)
      if (view.extents[d] > 1 && view.strides[d] < 0) return true;
    return false;
  }

  void check_overlaps() {
    for_each_field(op_, [&](const auto& written, const auto& a) {
      if constexpr (ViewLike<std::remove_cvref_t<decltype(a)>>) {
        if (!written.is_written() || !a.present()) return;
        for_each_view(op_, [&](const auto& other, const auto& b) {
          const void *pa = &a, *pb = &b;
          if (!good() || pa == pb || !b.present() || !overlap(a, b)) return;
          if (allowed(pa, pb, same_elements(a, b))) return;
          status_ = invalid(std::string(written.name) + " overlaps " + std::string(other.name) +
                            "; it must have memory of its own" + (named(pa, pb) ? " or be the same view" : ""));
        });
      }
    });
  }

  void allow(const void* a, const void* b) {
    pair_[pairs_][0] = a;
    pair_[pairs_][1] = b;
    ++pairs_;
  }
  bool named(const void* a, const void* b) const {
    for (unsigned i = 0; i < pairs_; ++i)
      if ((pair_[i][0] == a && pair_[i][1] == b) || (pair_[i][0] == b && pair_[i][1] == a)) return true;
    return false;
  }
  bool allowed(const void* a, const void* b, bool same) const {
    for (unsigned i = 0; i < pairs_; ++i)
      if ((pair_[i][0] == a && pair_[i][1] == b) || (pair_[i][0] == b && pair_[i][1] == a))
        if (same || (free_ >> i & 1)) return true;
    return false;
  }

  template <class T> std::string name_of(const T& value) const {
    std::string name = "a field";
    for_each_field(op_, [&](const auto& field, const auto& member) {
      if (static_cast<const void*>(&member) == static_cast<const void*>(&value)) name = std::string(field.name);
    });
    return name;
  }
  template <class T> std::string must(const T& value, const std::string& what) const {
    return "is " + format_value(value) + "; it must be " + what;
  }
  static std::string list(DTypes types) {
    std::string text;
    for (int i = 0; i < dtype_count; ++i)
      if (types.contains(static_cast<DType>(i)))
        text += (text.empty() ? "" : " ") + std::string(inlay::name(static_cast<DType>(i)));
    return text;
  }
  template <class T> void fail(const T& field, const std::string& what) {
    status_ = invalid(name_of(field) + " " + what);
  }

  const Op& op_;
  Status status_;
  const void* pair_[max_pairs][2];
  unsigned pairs_ = 0;
  unsigned free_ = 0;
};

}  // namespace inlay
