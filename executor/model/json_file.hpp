// A JSON file, and reading its fields without exceptions: the first wrong one is kept as a Status.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay::exec {

using Json = nlohmann::json;

// How deep arrays and objects may lie in one another: what walks them may call itself.
inline constexpr int deepest_json = 100;

// `origin` names the text in messages.
Expected<Json> parse_json(std::string_view text, const std::string& origin);
Expected<Json> read_json(const std::string& path);

// Null where the key is missing or null.
const Json* find(const Json& object, std::string_view key);

// As it may stand in a message, before quote() cuts it.
std::string shown(const Json& value);

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
  const Json* lookup(const char* key, bool required);
  bool wrong(const char* key, const char* kind);

  const Json& object_;
  std::string origin_;
  Status status_;
};

}  // namespace inlay::exec
