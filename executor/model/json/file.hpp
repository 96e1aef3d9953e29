// A JSON file, and reading its fields without exceptions: the first wrong one is kept as a Status.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

#include "executor/model/json/json.hpp"

namespace inlay::exec {

Expected<JsonDocument> read_json(const std::string& path);

class JsonFields {
 public:
  JsonFields(const Json& object, std::string origin) : object_(object), origin_(std::move(origin)) {}

  Status take_status() { return std::move(status_); }
  bool ok() const { return status_.ok(); }
  void fail(StatusCode code, const std::string& what);

  // True where the key is there and of the right type; `out` stays as it is otherwise.
  bool integer(const char* key, index& out, bool required = false);
  bool number(const char* key, double& out, bool required = false);
  bool boolean(const char* key, bool& out);
  bool text(const char* key, std::string& out, bool required = false);

 private:
  // Null where the key is missing or null.
  Json lookup(const char* key, bool required);
  bool wrong(const char* key, const char* kind);

  Json object_;
  std::string origin_;
  Status status_;
};

}  // namespace inlay::exec
