#include "tools/serve/fields.hpp"

#include <algorithm>
#include <cmath>

#include <inlay/core/quote.hpp>

namespace inlay::tools {

namespace {

constexpr int deepest = 16;  // messages > message > content > part is 4

// Brackets that are open at once, outside strings. nlohmann_json copies and prints by recursion: a deep body would
// overflow the stack.
bool is_too_deep(const std::string& body) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

std::string shown(double value) {
  std::string text = Json(value).dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

const char* type_of(const ApiError& error) {
  if (error.status == 429) return "rate_limit_error";
  return error.status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

std::string to_body(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const nlohmann::ordered_json object{{"error",
                                       {{"message", error.message},
                                        {"type", type_of(error)},
                                        {"param", or_null(error.param)},
                                        {"code", or_null(error.code)}}}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<ApiError> parse_object(const std::string& body, Json& object) {
  if (is_too_deep(body))
    return ApiError{.message = "the body has more than " + std::to_string(deepest) +
                               " brackets that are open at once; it must have fewer"};
  try {
    object = Json::parse(body);
  } catch (const Json::parse_error& error) {
    return ApiError{.message = "the body is not JSON in UTF-8 from byte " + std::to_string(error.byte) +
                               " on; it must be a JSON object"};
  } catch (const Json::exception&) {  // a number that no double holds
    return ApiError{.message = "the body has a number that is too large; it must be a JSON object"};
  }
  if (!object.is_object())
    return ApiError{.message = "the body is " + std::string(object.type_name()) + "; it must be a JSON object"};
  return std::nullopt;
}

const Json* Fields::any(const char* name) {
  seen_.push_back(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double least, double most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (number >= least && number <= most) return number;
  wrong(name, *value, "a number in " + shown(least) + ".." + shown(most));
  return std::nullopt;
}

std::optional<std::int64_t> Fields::integer(const char* name, std::int64_t least, std::int64_t most) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= INT64_MAX);
  if (fits && value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= most)
    return value->get<std::int64_t>();
  wrong(name, *value, "a whole number in " + std::to_string(least) + ".." + std::to_string(most));
  return std::nullopt;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(name, *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> Fields::string(const char* name) {
  const Json* value = any(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong(name, *value, "a string");
  return std::nullopt;
}

void Fields::refuse(const char* name, const Json& nothing, const char* reason) {
  const Json* value = any(name);
  if (value != nullptr && *value != nothing)
    wrong(name, *value, (nothing.is_null() ? "left out" : shown(nothing)) + std::string(": ") + reason);
}

void Fields::fail(const std::string& name, const std::string& message, const std::string& code, int status) {
  if (!error_) error_ = {.status = status, .message = message, .param = name, .code = code};
}

void Fields::wrong(const std::string& name, const Json& value, const std::string& must) {
  fail(name, name + " is " + shown(value) + "; it must be " + must);
}

const std::optional<ApiError>& Fields::finish() {
  for (const auto& [name, value] : object_.items())
    if (std::find(seen_.begin(), seen_.end(), name) == seen_.end())
      fail(printable(name), "the field " + quote(name) + " is not known; it must be left out");
  return error_;
}

}  // namespace inlay::tools
