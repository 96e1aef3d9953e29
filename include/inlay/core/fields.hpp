// Every operator names its fields once. Check messages, `verify`, bindings and plan capture read
// that list.
//
//   static constexpr auto fields = std::tuple{in("x", &RmsNorm::x), out("y", &RmsNorm::y),
//                                             scalar("eps", &RmsNorm::eps)};
#pragma once

#include <string_view>
#include <tuple>

namespace inlay {

enum class Role : unsigned char { in, optional_in, out, optional_out, inout, scalar };

template <class Op, class T> struct Field {
  std::string_view name;
  T Op::*member;
  Role role;

  constexpr bool is_view() const { return role != Role::scalar; }
  constexpr bool is_written() const { return role == Role::out || role == Role::optional_out || role == Role::inout; }
  constexpr bool is_optional() const { return role == Role::optional_in || role == Role::optional_out; }
};

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
template <class Op, class T> constexpr Field<Op, T> scalar(std::string_view name, T Op::*member) {
  return {name, member, Role::scalar};
}

// Calls visit(field, value) for each field of `op`, in order.
template <class Op, class Visit> constexpr void for_each_field(Op& op, Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field, op.*(field.member)), ...); }, std::remove_const_t<Op>::fields);
}

}  // namespace inlay
