// The fields of a JSON object that a stranger sent, each asked for by its name, its type and its range. The first that
// is wrong is remembered with what it must be; a field that nobody asked for is wrong too.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace inlay::tools {

using Json = nlohmann::json;

// An error as OpenAI's clients read it.
struct ApiError {
  int status = 400;
  std::string message = {};
  std::string param = {};  // the field, if it is one
  std::string code = {};
};
// {"error": {"message", "type", "param", "code"}}
std::string to_body(const ApiError& error);

// A body as an object: well-formed JSON in UTF-8 that is not deeper than what the protocol has.
std::optional<ApiError> parse_object(const std::string& body, Json& object);

class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  // Nothing if the field is not there or null, or wrong.
  std::optional<double> number(const char* name, double least, double most);
  std::optional<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most);
  std::optional<bool> boolean(const char* name);
  std::optional<std::string> string(const char* name);
  // The value as it is; nullptr where it is not there or null.
  const Json* any(const char* name);
  // It may say anything: it changes no text.
  void ignore(const char* name) { seen_.push_back(name); }
  // What this server does not do: only `nothing`, or null, may stand there.
  void refuse(const char* name, const Json& nothing, const char* reason);

  void fail(const std::string& name, const std::string& message, const std::string& code = {}, int status = 400);
  // The same for a value: "NAME is VALUE; it must be .."
  void wrong(const std::string& name, const Json& value, const std::string& must);
  bool ok() const { return !error_; }
  // To be called behind all others.
  const std::optional<ApiError>& finish();

 private:
  const Json& object_;
  std::vector<std::string> seen_ = {};
  std::optional<ApiError> error_ = {};
};

}  // namespace inlay::tools
