// The filters, tests, methods and functions that templates may call. One that stands in no table is refused when the
// template is parsed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "executor/text/chat/syntax.hpp"

namespace inlay::exec::chat {

class Evaluation;

// One call: what it is called on, and the value of each parameter that was given.
struct Call {
  Evaluation& run;
  std::uint32_t at;
  const Builtin& builtin;
  Value subject;
  std::array<Value, most_parameters> values = {};
  std::array<bool, most_parameters> given = {};
  const Builtin* inner = nullptr;

  Value fail(const std::string& what) const;  // undefined, and the evaluation ends
};

// Null where there is none of this name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(std::string_view name);
const Builtin* find_function(std::string_view name);

// What is spelled as an attribute of a value and is a method of Python's there.
bool is_python_method(Value::Kind kind, std::string_view name);

}  // namespace inlay::exec::chat
