// An operator as text: its name, and every field that is not what it is where a caller leaves it out.
//
//   rms_norm: x f32 [3, 33] strides [36, 1], weight f32 [33], y i8 [3, 33], y_scale f32 [3], eps 1
//
// A failing random case prints it, so that the case can be written down again.
#pragma once

#include <cstdio>
#include <string>

#include <inlay/core/check.hpp>

namespace inlay::test {

template <class T> std::string describe_value(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    char text[32];
    std::snprintf(text, sizeof text, std::is_same_v<T, float> ? "%.9g" : "%.17g", static_cast<double>(value));
    return text;
  } else {
    return format_value(value);  // enumerators as numbers, in the order of their declaration
  }
}

template <ViewLike V> std::string describe_value(const V& view) {
  std::string text = std::string(inlay::name(view.dtype)) + ' ' + std::string(format_shape<V::rank>(view.extents));
  if (!view.contiguous()) text += " strides " + format_shape<V::rank>(view.strides);
  return text;
}

template <ListOfViews L> std::string describe_value(const L& list) {
  std::string text;
  for (const auto& view : list) text += (text.empty() ? "{" : "; ") + describe_value(view);
  return text + '}';
}

template <class Op>
requires requires { Op::fields; }
std::string describe(const Op& op) {
  const Op untouched{};
  std::string text(Op::name);
  const char* separator = ": ";
  for_each_field(op, [&](const auto& field, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    bool left_out;
    if constexpr (ViewLike<Value>)
      left_out = !value.present();
    else if constexpr (ListOfViews<Value>)
      left_out = value.empty();
    else
      left_out = value == untouched.*(field.member);
    if (left_out) return;
    text += separator + std::string(field.name) + ' ' + describe_value(value);
    separator = ", ";
  });
  return text;
}

}  // namespace inlay::test
