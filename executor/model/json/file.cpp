#include <cmath>

#include <inlay/core/quote.hpp>
#include <inlay/model/mapped_file.hpp>

#include "executor/model/json/file.hpp"

namespace inlay::exec {

Expected<JsonDocument> read_json(const std::string& path) {
  auto mapping = Mapping::file(path);
  if (!mapping) return failure(std::move(mapping.error()));
  const auto bytes = (*mapping)->bytes();
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

void JsonFields::fail(StatusCode code, const std::string& what) {
  if (status_) status_ = Status(code, origin_ + ": " + what);
}

bool JsonFields::integer(const char* key, index& out, bool required) {
  const Json value = lookup(key, required);
  if (!value) return false;
  constexpr double exact = 9007199254740992;  // 2^53: some writers make a float of every number
  if (value.is_integer())
    out = value.integer();  // above 2^63 it turns negative, which no caller takes
  else if (value.is_number() && std::trunc(value.number()) == value.number() && std::abs(value.number()) <= exact)
    out = static_cast<index>(value.number());
  else
    return wrong(key, "integer");
  return true;
}

bool JsonFields::number(const char* key, double& out, bool required) {
  const Json value = lookup(key, required);
  if (!value) return false;
  if (!value.is_number()) return wrong(key, "number");
  out = value.number();
  return true;
}

bool JsonFields::boolean(const char* key, bool& out) {
  const Json value = lookup(key, false);
  if (!value) return false;
  if (!value.is_boolean()) return wrong(key, "boolean");
  out = value.is_true();
  return true;
}

bool JsonFields::text(const char* key, std::string& out, bool required) {
  const Json value = lookup(key, required);
  if (!value) return false;
  if (!value.is_string()) return wrong(key, "string");
  out = value.text();
  return true;
}

Json JsonFields::lookup(const char* key, bool required) {
  if (!status_) return {};
  const Json value = object_.find(key);
  if (!value && required) fail(StatusCode::not_found, "the key " + quote(key) + " is missing");
  return value;
}

bool JsonFields::wrong(const char* key, const char* kind) {
  fail(StatusCode::corrupt_data, "the key " + quote(key) + " is no " + kind);
  return false;
}

}  // namespace inlay::exec
