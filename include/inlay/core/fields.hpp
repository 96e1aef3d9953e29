// Every operator names itself and its fields once. Check messages, `verify`, bindings, staging and plan capture
// read that list.
//
//   static constexpr std::string_view name = "rms_norm";
//   static constexpr auto fields = std::tuple{in("x", &RmsNorm::x), out("y", &RmsNorm::y),
//                                             scalar("eps", &RmsNorm::eps)};
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>

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
  std::apply([&](const auto&... field) { (visit(field, op.*(field.member)), ...); },
             fields_of<std::remove_const_t<Op>>);
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
template <class Op> constexpr bool writes_nothing(const Op& op) {
  bool nothing = true;
  for_each_field(op, [&](const auto& field, const auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>)
      if (field.is_written() && value.present() && !value.empty()) nothing = false;
  });
  return nothing;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
