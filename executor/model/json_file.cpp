#include <inlay/model/mapped_file.hpp>
#include <inlay/text/quote.hpp>

#include "executor/model/json_file.hpp"

namespace inlay::exec {

namespace {

// Of brackets that are no part of a string. What else is wrong the parser says.
bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > deepest_json) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Expected<Json> parse_json(std::string_view text, const std::string& origin) {
  if (too_deep(text))
    return failure(StatusCode::corrupt_data,
                   origin + ": nested deeper than the " + std::to_string(deepest_json) + " levels that JSON may have");
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return failure(StatusCode::corrupt_data, origin + ": no JSON object");
  return json;
}

Expected<Json> read_json(const std::string& path) {
  const auto mapping = Mapping::file(path);
  if (!mapping) return failure(mapping.error().code(), std::string(mapping.error().message()));
  const auto bytes = (*mapping)->bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

const Json* find(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string shown(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void JsonFields::fail(StatusCode code, const std::string& what) {
  if (status_) status_ = Status(code, origin_ + ": " + what);
}

bool JsonFields::integer(const char* key, index& out, bool required) {
  const Json* value = lookup(key, required);
  if (!value) return false;
  if (!value->is_number_integer()) return wrong(key, "integer");
  out = value->get<index>();  // above 2^63 it turns negative, which no caller takes
  return true;
}

bool JsonFields::number(const char* key, double& out, bool required) {
  const Json* value = lookup(key, required);
  if (!value) return false;
  if (!value->is_number()) return wrong(key, "number");
  out = value->get<double>();
  return true;
}

bool JsonFields::boolean(const char* key, bool& out) {
  const Json* value = lookup(key, false);
  if (!value) return false;
  if (!value->is_boolean()) return wrong(key, "boolean");
  out = value->get<bool>();
  return true;
}

bool JsonFields::text(const char* key, std::string& out, bool required) {
  const Json* value = lookup(key, required);
  if (!value) return false;
  if (!value->is_string()) return wrong(key, "string");
  out = value->get_ref<const std::string&>();
  return true;
}

const Json* JsonFields::lookup(const char* key, bool required) {
  if (!status_) return nullptr;
  const Json* value = find(object_, key);
  if (!value && required) fail(StatusCode::not_found, "the key " + quote(key) + " is missing");
  return value;
}

bool JsonFields::wrong(const char* key, const char* kind) {
  fail(StatusCode::corrupt_data, "the key " + quote(key) + " is no " + kind);
  return false;
}

}  // namespace inlay::exec
