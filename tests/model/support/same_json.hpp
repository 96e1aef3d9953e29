// Whether a document of ours says what nlohmann's says.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "executor/model/json/json.hpp"

namespace inlay::exec::test {

inline bool same_json(const exec::Json& ours, const nlohmann::json& theirs) {
  if (ours.is_null() != theirs.is_null() || ours.is_boolean() != theirs.is_boolean() ||
      ours.is_integer() != theirs.is_number_integer() || ours.is_natural() != theirs.is_number_unsigned() ||
      ours.is_number() != theirs.is_number() || ours.is_string() != theirs.is_string() ||
      ours.is_array() != theirs.is_array() || ours.is_object() != theirs.is_object())
    return false;
  if (theirs.is_boolean()) return ours.is_true() == theirs.get<bool>() && ours.is_false() != theirs.get<bool>();
  if (theirs.is_number_integer() &&
      (ours.integer() != theirs.get<std::int64_t>() || ours.natural() != theirs.get<std::uint64_t>()))
    return false;
  if (theirs.is_number()) return ours.number() == theirs.get<double>();
  if (theirs.is_string()) return ours == theirs.get_ref<const std::string&>();
  if (ours.size() != (theirs.is_structured() ? theirs.size() : 0)) return false;
  std::size_t i = 0;
  for (const exec::Json each : ours.elements())
    if (!same_json(each, theirs[i++])) return false;
  std::size_t members = 0;
  for (const auto& [key, value] : ours.members()) {
    const auto at = theirs.find(std::string(key));
    const bool found = ours.find(key).alone().begin() == value.alone().begin();
    if (at == theirs.end() || !found || !same_json(value, *at)) return false;
    ++members;
  }
  return i + members == ours.size();
}

}  // namespace inlay::exec::test
