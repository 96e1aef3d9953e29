// A JSON file, and reading its fields without exceptions: the first wrong one is kept as a Status.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <inlay/model/mapped_file.hpp>
#include <inlay/text/quote.hpp>

namespace inlay::exec {

using Json = nlohmann::json;

inline Expected<Json> parse_json(std::string_view text, const std::string& origin) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return failure(StatusCode::corrupt_data, origin + ": no JSON object");
  return json;
}

inline Expected<Json> read_json(const std::string& path) {
  const auto mapping = Mapping::file(path);
  if (!mapping) return failure(mapping.error().code(), std::string(mapping.error().message()));
  const auto bytes = (*mapping)->bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

// Null where the key is missing or null.
inline const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

class JsonFields {
 public:
  JsonFields(const Json& object, std::string origin) : object_(object), origin_(std::move(origin)) {}

  Status take_status() { return std::move(status_); }
  bool ok() const { return status_.ok(); }
  void fail(StatusCode code, const std::string& what) {
    if (status_) status_ = Status(code, origin_ + ": " + what);
  }

  bool integer(const char* key, index& out, bool required = false) {
    const Json* value = lookup(key, required);
    if (!value) return false;
    if (!value->is_number_integer()) return wrong(key, "integer");
    out = value->get<index>();  // above 2^63 it turns negative, which no caller takes
    return true;
  }
  bool number(const char* key, double& out, bool required = false) {
    const Json* value = lookup(key, required);
    if (!value) return false;
    if (!value->is_number()) return wrong(key, "number");
    out = value->get<double>();
    return true;
  }
  bool boolean(const char* key, bool& out) {
    const Json* value = lookup(key, false);
    if (!value) return false;
    if (!value->is_boolean()) return wrong(key, "boolean");
    out = value->get<bool>();
    return true;
  }
  bool text(const char* key, std::string& out, bool required = false) {
    const Json* value = lookup(key, required);
    if (!value) return false;
    if (!value->is_string()) return wrong(key, "string");
    out = value->get_ref<const std::string&>();
    return true;
  }

 private:
  const Json* lookup(const char* key, bool required) {
    if (!status_) return nullptr;
    const Json* value = find(object_, key);
    if (!value && required) fail(StatusCode::not_found, "the key " + quote(key) + " is missing");
    return value;
  }
  bool wrong(const char* key, const char* kind) {
    fail(StatusCode::corrupt_data, "the key " + quote(key) + " is no " + kind);
    return false;
  }

  const Json& object_;
  std::string origin_;
  Status status_;
};

}  // namespace inlay::exec
