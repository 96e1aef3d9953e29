#include "cl_kernels/tuning/tuning.hpp"

#include <algorithm>

#include <inlay/core/quote.hpp>

namespace inlay {

std::string_view name(ClShape shape) {
  return shape == ClShape::per_item ? "per_item" : shape == ClShape::per_group ? "per_group" : "by_device";
}

std::optional<ClShape> shape_called(std::string_view wanted) {
  for (const ClShape shape : {ClShape::per_item, ClShape::per_group})
    if (name(shape) == wanted) return shape;
  return std::nullopt;
}

}  // namespace inlay

namespace inlay::cl {

std::string choices(std::span<const int> values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + std::to_string(values[i]);
  return text;
}

Expected<const ClParameter*> find_parameter(std::string_view op, std::string_view name) {
  std::string ops, names;
  for (const ClParameter& parameter : cl_parameters()) {
    if (parameter.op == op && parameter.name == name) return &parameter;
    if (parameter.op == op) names += (names.empty() ? "" : ", ") + std::string(parameter.name);
    if (!ops.ends_with(parameter.op)) ops += (ops.empty() ? "" : ", ") + std::string(parameter.op);
  }
  if (names.empty()) return failure(invalid(quote(op) + " is no operator with parameters; those are " + ops));
  return failure(invalid(quote(name) + " is no parameter of " + std::string(op) + ", which has " + names));
}

Status check_value(const ClParameter& parameter, ClShape shape, long value) {
  const auto values = parameter.of(shape).list();
  if (std::ranges::find(values, value) != values.end()) return {};
  return invalid("is " + std::to_string(value) + "; in the " + std::string(inlay::name(shape)) + " shape it must be " +
                 choices(values));
}

Status Tuning::set(std::string_view op, std::string_view name, long value) {
  auto found = find_parameter(op, name);
  if (!found) return std::move(found.error());
  if (Status wrong = check_value(**found, shape_, value); !wrong.ok())
    return invalid(std::string(op) + "." + std::string(name) + " " + std::string(wrong.message()));
  const ClParameter& parameter = **found;
  std::erase_if(set_, [&](const Value& one) { return one.op == parameter.op && one.name == parameter.name; });
  if (value != parameter.of(shape_).usual) set_.push_back({parameter.op, parameter.name, static_cast<int>(value)});
  return {};
}

}  // namespace inlay::cl
