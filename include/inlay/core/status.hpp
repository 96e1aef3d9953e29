// Errors as values: a code and a message that names the parameter, its value and what it must be.
// Success is a null pointer: nothing is allocated, nothing is copied.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace inlay {

enum class StatusCode : unsigned char {
  ok,
  invalid_argument,  // the call is outside the operator's contract
  unsupported,       // inside the contract, declined by this backend (docs/support_table.md)
  not_found,         // a file, a key or a tensor is not there
  corrupt_data,      // a file or a row of numbers is not what it claims to be
  out_of_memory,
  internal,
};

constexpr std::string_view name(StatusCode code) {
  constexpr std::string_view table[] = {"ok",           "invalid argument", "unsupported",   "not found",
                                        "corrupt data", "out of memory",    "internal error"};
  return table[static_cast<int>(code)];
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : error_(std::make_unique<Error>(Error{code, std::move(message)})) {}

  bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return error_ ? error_->code : StatusCode::ok; }
  std::string_view message() const { return error_ ? std::string_view(error_->message) : "ok"; }

 private:
  struct Error {
    StatusCode code;
    std::string message;
  };
  std::unique_ptr<Error> error_;
};

inline Status invalid(std::string message) { return {StatusCode::invalid_argument, std::move(message)}; }
inline Status unsupported(std::string message) { return {StatusCode::unsupported, std::move(message)}; }

// Either a T or the Status that says why there is none. Fallible constructors return it.
template <class T> using Expected = tl::expected<T, Status>;

inline tl::unexpected<Status> failure(StatusCode code, std::string message) {
  return tl::unexpected<Status>(Status(code, std::move(message)));
}
inline tl::unexpected<Status> failure(Status status) { return tl::unexpected<Status>(std::move(status)); }

}  // namespace inlay
