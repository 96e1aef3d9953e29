// Every operator names itself and its fields once. Check messages, `verify`, bindings, staging and plan capture
// read that list.
//
//   static constexpr std::string_view name = "rms_norm";
//   static constexpr auto fields = FieldList{in("x", &RmsNorm::x), out("y", &RmsNorm::y),
//                                            scalar("eps", &RmsNorm::eps)};
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include <inlay/core/inline.hpp>

namespace inlay {

enum class Role : unsigned char { in, optional_in, out, optional_out, inout, in_list, scalar };

template <class Op, class T> struct Field {
  std::string_view name;
  T Op::*member;
  Role role;

  INLAY_INLINE constexpr bool is_view() const { return role != Role::scalar && role != Role::in_list; }
  INLAY_INLINE constexpr bool is_list() const { return role == Role::in_list; }
  INLAY_INLINE constexpr bool is_written() const {
    return role == Role::out || role == Role::optional_out || role == Role::inout;
  }
  INLAY_INLINE constexpr bool is_optional() const { return role == Role::optional_in || role == Role::optional_out; }
};

inline namespace INLAY_UNIT_ISA {

template <class Op, class T> constexpr Field<Op, T> in(std::string_view name, T Op::*member) {
  return {name, member, Role::in};
}
template <class Op, class T> constexpr Field<Op, T> optional_in(std::string_view name, T Op::*member) {
  return {name, member, Role::optional_in};
}
template <class Op, class T> constexpr Field<Op, T> out(std::string_view name, T Op::*member) {
  return {name, member, Role::out};
}
template <class Op, class T> constexpr Field<Op, T> optional_out(std::string_view name, T Op::*member) {
  return {name, member, Role::optional_out};
}
// Read and written in place: a KV cache, for example.
template <class Op, class T> constexpr Field<Op, T> inout(std::string_view name, T Op::*member) {
  return {name, member, Role::inout};
}
// A span of views that are read; empty where it is left out.
template <class Op, class T> constexpr Field<Op, T> in_list(std::string_view name, T Op::*member) {
  return {name, member, Role::in_list};
}
template <class Op, class T> constexpr Field<Op, T> scalar(std::string_view name, T Op::*member) {
  return {name, member, Role::scalar};
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

template <std::size_t i, class Op, class T> struct FieldAt { Field<Op, T> field; };

template <class Places, class Op, class... Ts> struct FieldsAt;
template <std::size_t... i, class Op, class... Ts>
struct FieldsAt<std::index_sequence<i...>, Op, Ts...> : FieldAt<i, Op, Ts>... {
  INLAY_INLINE constexpr FieldsAt(const Field<Op, Ts>&... fields) : FieldAt<i, Op, Ts>{fields}... {}

  template <class Visit> INLAY_INLINE constexpr void for_each(Visit&& visit) const {
    (visit(FieldAt<i, Op, Ts>::field), ...);
  }
};

template <std::size_t i, class Op, class T>
INLAY_INLINE constexpr const Field<Op, T>& field_at(const FieldAt<i, Op, T>& place) {
  return place.field;
}

}  // namespace detail

// The fields of an operator, in order. A std::tuple of them works as well, and is half of what a compiler does for a
// program of many operators: its constructors ask of twenty types whether each converts to each.
template <class Op, class... Ts> struct FieldList : detail::FieldsAt<std::index_sequence_for<Ts...>, Op, Ts...> {
  using detail::FieldsAt<std::index_sequence_for<Ts...>, Op, Ts...>::FieldsAt;
  static constexpr std::size_t count = sizeof...(Ts);

  template <std::size_t i> INLAY_INLINE constexpr const auto& at() const { return detail::field_at<i>(*this); }
};
template <class Op, class... Ts> FieldList(Field<Op, Ts>...) -> FieldList<Op, Ts...>;

// What a field's type tells at compile time, where its role is known at run time only.
template <class T>
concept ViewLike = requires(const T& t) {
  typename T::space;
  t.extents;
};
template <class T>
concept ListOfViews = requires(const T& t) {
  typename T::value_type::space;
  t.begin();
};

inline namespace INLAY_UNIT_ISA {

// The list as data of each library's own, to be read at run time. Op::fields has one address in the process, whatever
// version of Op a library was built with.
template <class Op> INLAY_HIDDEN inline constexpr auto fields_of = Op::fields;

// Calls visit(field, value) for each field of `op`, in order.
template <class Op, class Visit> constexpr void for_each_field(Op& op, Visit&& visit) {
  fields_of<std::remove_const_t<Op>>.for_each([&](const auto& field) { visit(field, op.*(field.member)); });
}

// Calls visit(field, view) for each view, those in lists too. A scalar is no view.
template <class Op, class Visit> constexpr void for_each_view(Op& op, Visit&& visit) {
  for_each_field(op, [&](const auto& field, auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>) {
      visit(field, value);
    } else if constexpr (ListOfViews<std::remove_cvref_t<decltype(value)>>) {
      for (const auto& view : value) visit(field, view);
    }
  });
}

// Is there no element to write? Then there is nothing to compute, whatever the other extents are.
template <class Op> bool writes_nothing(const Op& op) {
  bool nothing = true;
  for_each_field(op, [&](const auto& field, const auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>)
      if (field.is_written() && value.present() && !value.empty()) nothing = false;
  });
  return nothing;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
