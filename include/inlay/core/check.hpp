// The vocabulary of a contract's check(). Each demand takes the fields themselves; the name is
// looked up in the operator's list only when a message is due, so a passing check costs compares.
//
//   return Check(op).dtype(op.x, floats).same_shape(op.y, op.x).extent(op.weight, 0, dim);
//
// What every operator wants is done for it, lists of views included: required views present, a dtype that there is,
// extents not negative, extents and strides that memory can have (fits_memory), innermost stride one, no negative
// stride of i4 and u4, memory where there are elements, aligned to them, and no output over itself, nor over another
// field unless may_alias.
//
// Demands are evaluated behind a refusal too: their arguments must not overflow or divide by zero whatever the fields
// hold (core/overflow.hpp).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include <inlay/core/fields.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/layout.hpp>
#include <inlay/core/overlap.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/text.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

inline Text format_shape(const index* extents, int rank) {
  Text text = "[";
  for (int d = 0; d < rank; ++d) text += (d ? ", " : "") + number(extents[d]);
  return text + "]";
}

template <std::size_t rank> Text format_shape(const std::array<index, rank>& extents) {
  return format_shape(extents.data(), static_cast<int>(rank));
}

template <class T> Text format_value(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_enum_v<T>)
    return number(static_cast<int>(value));
  else
    return number(value);
}

// The demands, of any operator: what only a message needs is compiled once and out of the way.
class Demands {
 public:
  template <class V> Demands& dtype(const V& view, DTypes allowed) {
    if (good() && view.present() && !allowed.contains(view.dtype)) fail_dtype(&view, view.dtype, allowed);
    return *this;
  }
  template <class A, class B> Demands& same_dtype(const A& view, const B& other) {
    if (good() && view.present() && view.dtype != other.dtype) fail_same_dtype(&view, view.dtype, &other, other.dtype);
    return *this;
  }
  template <class V> Demands& shape(const V& view, const std::array<index, V::rank>& expected) {
    if (good() && view.present() && view.extents != expected) fail_shape(&view, view, expected.data());
    return *this;
  }
  template <class A, class B> Demands& same_shape(const A& view, const B& other) { return shape(view, other.extents); }
  template <class V> Demands& extent(const V& view, int dimension, index expected) {
    const index extent = view.extents[static_cast<std::size_t>(dimension)];
    if (good() && view.present() && extent != expected) fail_extent(&view, extent, dimension, expected);
    return *this;
  }
  // Rows may lie apart, elements may not: true of the innermost dimension for every view.
  // contiguous() asks it of all dimensions.
  template <class V> Demands& contiguous(const V& view) {
    if (good() && view.present() && !view.contiguous()) fail(&view, "is strided; it must be contiguous");
    return *this;
  }
  // Two optional fields that make sense only together.
  template <class A, class B> Demands& together(const A& a, const B& b) {
    if (good() && a.present() != b.present()) fail_together(&a, a.present(), &b);
    return *this;
  }
  template <class T> Demands& at_least(const T& value, std::type_identity_t<T> low) {
    if (good() && !(value >= low)) fail_value(value, "at least " + format_value(low));
    return *this;
  }
  template <class T> Demands& within(const T& value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
    if (good() && !(value >= low && value <= high))
      fail_value(value, "in " + format_value(low) + ".." + format_value(high));
    return *this;
  }
  template <class T> Demands& finite(const T& value) {
    if (good() && !__builtin_isfinite(value)) fail_value(value, "finite");
    return *this;
  }
  template <class T> Demands& positive(const T& value) {
    if (good() && !(value > 0 && __builtin_isfinite(value))) fail_value(value, "positive and finite");
    return *this;
  }
  template <class T> Demands& not_negative(const T& value) {
    if (good() && !(value >= 0 && __builtin_isfinite(value))) fail_value(value, "zero or more, and finite");
    return *this;
  }
  // Whatever has no word of its own: `field` is named, `what` goes on from the name.
  template <class T> Demands& that(bool holds, const T& field, const char* what) {
    if (good() && !holds) fail(&field, what);
    return *this;
  }
  template <class T, class Describe>
  requires std::is_invocable_r_v<std::string_view, Describe> Demands& that(bool holds, const T& field,
                                                                           Describe&& what) {
    if (good() && !holds) fail(&field, what());
    return *this;
  }
  // `written` may be `other` itself, element for element; a partial overlap stays refused.
  template <class A, class B> Demands& may_alias(const A& written, const B& other) {
    allow(&written, &other);
    return *this;
  }
  // `written` and `other` may share memory in any way: a view into a cache that is also written.
  template <class A, class B> Demands& may_overlap(const A& written, const B& other) {
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

 protected:
  using NameOf = std::string_view (*)(const void* op, const void* field);
  Demands(const void* op, NameOf names) : op_(op), name_of_(names) {}

  // Where a view lies that has elements, whatever its type; or of a list how to come by its views.
  struct Known {
    const void* field;
    Layout layout;
    Place place;
    ByteRange range;
    bool written;
    index count;
    Known (*element)(const Known& list, index i);
  };
  static constexpr int max_fields = 32;  // of an operator

  // The next one that is known, should it be one: a view that check_view adds, or a list.
  Known& next() { return known_[fields_]; }
  void add_list(index count, Known (*element)(const Known& list, index i)) {
    next().written = false, next().count = count, next().element = element;
    ++fields_;
  }

  // A view that is there, in next(): the field's name, and its place in a list or -1.
  void check_view(std::string_view field, int in_list, bool null) {
    if (!good()) return;
    Known& known = next();
    const Layout& view = known.layout;
    if (static_cast<int>(view.dtype) >= dtype_count) return fail_view(field, in_list, view, Fault::dtype);
    if (!surely_fits_memory(view)) {
      for (int d = 0; d < view.rank; ++d)
        if (view.extents[d] < 0) return fail_view(field, in_list, view, Fault::negative_extent);
      if (!fits_memory(view)) return fail_view(field, in_list, view, Fault::memory);
    }
    if (view.empty()) return;
    if (null) return fail_view(field, in_list, view, Fault::null);
    const index bytes = bits(view.dtype) / 8;
    if (bytes > 1 && (known.place.first & (bytes - 1)) != 0) return fail_view(field, in_list, view, Fault::alignment);
    if (view.extents[view.rank - 1] > 1 && view.strides[view.rank - 1] != 1)
      return fail_view(field, in_list, view, Fault::innermost_stride);
    if (bytes == 0 && steps_back(view)) return fail_view(field, in_list, view, Fault::negative_stride);
    if (known.written && !elements_apart(view)) return fail_view(field, in_list, view, Fault::over_itself);
    if (in_list >= 0) return;
    known.range = byte_range(view, known.place.first), known.count = 0;
    ++fields_;
  }
  [[gnu::cold]] void fail_missing(std::string_view field) {
    if (good()) status_ = invalid(Text(field) + " is missing; it must be given");
  }

 private:
  static constexpr unsigned max_pairs = 16;

  void check_overlaps() {
    for (int i = 0; i < fields_; ++i)
      if (known_[i].written)
        for (int j = 0; j < fields_; ++j) {
          if (known_[j].count == 0 && j != i) check_overlap(known_[i], known_[j]);
          for (index k = 0; k < known_[j].count; ++k) {
            Known element = known_[j].element(known_[j], k);
            if (element.layout.empty()) continue;
            element.range = byte_range(element.layout, element.place.first);
            check_overlap(known_[i], element);
          }
        }
  }
  void check_overlap(const Known& written, const Known& other) {
    if (good() && one_allocation(written.place, other.place) &&
        overlap(written.layout, written.range, other.layout, other.range))
      fail_overlap(written, other);
  }
  // Two views that touch common bytes. A contract may allow it.
  [[gnu::cold]] void fail_overlap(const Known& written, const Known& other) {
    const void *a = written.field, *b = other.field;
    const bool same = written.place.first == other.place.first && same_layout(written.layout, other.layout);
    if (allowed(a, b, same)) return;
    status_ = invalid(name_of(a) + " overlaps " + name_of(b) + "; it must have memory of its own" +
                      (named(a, b) ? " or be the same view" : ""));
  }
  Text name_of(const void* field) const { return name_of_(op_, field); }

  enum class Fault { dtype, negative_extent, memory, null, alignment, innermost_stride, negative_stride, over_itself };

  static bool steps_back(const Layout& view) {
    for (int d = 0; d < view.rank; ++d)
      if (view.extents[d] > 1 && view.strides[d] < 0) return true;
    return false;
  }
  [[gnu::cold]] void fail_view(std::string_view field, int in_list, const Layout& view, Fault fault) {
    Text name(field);
    if (in_list >= 0) name += "[" + number(in_list) + "]";
    const Text shape = name + " has shape " + format_shape(view.extents, view.rank);
    const Text strides = format_shape(view.strides, view.rank);
    switch (fault) {
      case Fault::dtype:
        status_ = invalid(name + " has a dtype of number " + number(static_cast<int>(view.dtype)) +
                          "; it must be below " + number(dtype_count));
        break;
      case Fault::negative_extent: status_ = invalid(shape + "; no extent may be negative"); break;
      case Fault::memory:
        status_ = invalid(shape + " and strides " + strides + "; its elements must lie within 2^57 bytes");
        break;
      case Fault::null: status_ = invalid(shape + " but no memory; its data must not be null"); break;
      case Fault::alignment:
        status_ = invalid(name + " begins at a place that is no multiple of " + number(bits(view.dtype) / 8) +
                          " bytes; it must be aligned to its elements, which are " + Text(inlay::name(view.dtype)));
        break;
      case Fault::innermost_stride:
        status_ = invalid(name + " has innermost stride " + number(view.strides[view.rank - 1]) + "; it must be 1");
        break;
      case Fault::negative_stride:
        status_ = invalid(name + " has strides " + strides + "; none may be negative where two elements share a byte");
        break;
      case Fault::over_itself:
        status_ = invalid(shape + " and strides " + strides + "; no two of its elements may share memory");
        break;
    }
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

  static Text list(DTypes types) {
    Text text;
    for (int i = 0; i < dtype_count; ++i)
      if (types.contains(static_cast<DType>(i)))
        text += (text.empty() ? "" : " ") + Text(inlay::name(static_cast<DType>(i)));
    return text;
  }
  [[gnu::cold]] void fail(const void* field, std::string_view what) { status_ = invalid(name_of(field) + " " + what); }
  [[gnu::cold]] void fail_dtype(const void* field, DType dtype, DTypes allowed) {
    fail(field, "has dtype " + Text(inlay::name(dtype)) + "; it must be one of " + list(allowed));
  }
  [[gnu::cold]] void fail_same_dtype(const void* field, DType dtype, const void* other, DType expected) {
    fail(field, "has dtype " + Text(inlay::name(dtype)) + "; it must be " + Text(inlay::name(expected)) +
                    ", the dtype of " + name_of(other));
  }
  [[gnu::cold]] void fail_shape(const void* field, const Layout& view, const index* expected) {
    fail(field,
         "has shape " + format_shape(view.extents, view.rank) + "; it must be " + format_shape(expected, view.rank));
  }
  [[gnu::cold]] void fail_extent(const void* field, index extent, int dimension, index expected) {
    fail(field,
         "has extent " + number(extent) + " in dimension " + number(dimension) + "; it must be " + number(expected));
  }
  [[gnu::cold]] void fail_together(const void* field, bool present, const void* other) {
    fail(field, Text("is ") + (present ? "given" : "left out") + "; it must be " +
                    (present ? "left out, as " : "given, as ") + name_of(other) + " is");
  }
  template <class T> [[gnu::cold]] void fail_value(const T& value, std::string_view demand) {
    fail(&value, "is " + format_value(value) + "; it must be " + demand);
  }

  const void* op_;
  NameOf name_of_;
  Status status_;
  Known known_[max_fields];
  int fields_ = 0;
  const void* pair_[max_pairs][2];
  unsigned pairs_ = 0;
  unsigned free_ = 0;
};

template <class Op> class Check : public Demands {
 public:
  explicit Check(const Op& op) : Demands(&op, name_of) {
    static_assert(Op::fields.count <= max_fields);
    for_each_field(op, [&](const auto& field, const auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (ViewLike<Value>) {
        if (value.present()) {
          know(value, field.is_written());
          check_view(field.name, -1, is_null(value));
        } else if (!field.is_optional()) {
          fail_missing(field.name);
        }
      } else if constexpr (ListOfViews<Value>) {
        int i = 0;
        for (const auto& view : value) {
          know(view, false);
          check_view(field.name, i++, is_null(view));
        }
        next().field = &value;
        if (i > 0) add_list(i, element_of<Value>);
      }
    });
  }

 private:
  template <class V> static bool is_null(const V& view) { return view.data == decltype(view.data){}; }
  template <class V> void know(const V& view, bool written) {
    Known& known = next();
    known.field = &view, known.layout = view, known.place = inlay::place_of(view), known.written = written;
  }
  template <class List> static Known element_of(const Known& list, index i) {
    const auto& view = (*static_cast<const List*>(list.field))[static_cast<std::size_t>(i)];
    Known known = list;
    known.field = &view, known.layout = view, known.place = inlay::place_of(view);
    return known;
  }
  // The name of a view in a list is that of the list.
  static std::string_view name_of(const void* op, const void* field) {
    std::string_view name = "a field";
    for_each_field(*static_cast<const Op*>(op), [&](const auto& known, const auto& member) {
      if (static_cast<const void*>(&member) == field) name = known.name;
      if constexpr (ListOfViews<std::remove_cvref_t<decltype(member)>>)
        for (const auto& view : member)
          if (static_cast<const void*>(&view) == field) name = known.name;
    });
    return name;
  }
};

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
