// Errors as values: a code and a message that names the parameter, its value and what it must be.
// Success is a null pointer: nothing is allocated, nothing is copied.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

#include <inlay/core/inline.hpp>

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

inline namespace INLAY_UNIT_ISA {

constexpr std::string_view name(StatusCode code) {
  constexpr std::string_view table[] = {"ok",           "invalid argument", "unsupported",   "not found",
                                        "corrupt data", "out of memory",    "internal error"};
  return table[static_cast<int>(code)];
}

}  // namespace INLAY_UNIT_ISA

namespace detail {

// What a Status that is not ok points to; the message follows it, and a zero.
struct Error {
  StatusCode code;
  std::size_t size;

  INLAY_INLINE const char* message() const { return reinterpret_cast<const char*>(this + 1); }
};

inline namespace INLAY_UNIT_ISA {

[[gnu::cold, gnu::noinline]] inline const Error* make_error(StatusCode code, std::string_view message) {
  void* const memory = ::operator new(sizeof(Error) + message.size() + 1);
  char* const text = static_cast<char*>(memory) + sizeof(Error);
  if (!message.empty()) __builtin_memcpy(text, message.data(), message.size());
  text[message.size()] = 0;
  return new (memory) Error{code, message.size()};
}
[[gnu::cold, gnu::noinline]] inline void destroy(const Error* error) { ::operator delete(const_cast<Error*>(error)); }

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_VERSION_NAMESPACE {

class [[nodiscard]] Status {
 public:
  INLAY_INLINE Status() = default;
  INLAY_INLINE Status(StatusCode code, std::string_view message) : error_(detail::make_error(code, message)) {}
  INLAY_INLINE Status(Status&& other) noexcept : error_(other.error_) { other.error_ = nullptr; }
  INLAY_INLINE Status& operator=(Status&& other) noexcept {
    const detail::Error* const error = error_;
    error_ = other.error_;
    other.error_ = error;
    return *this;
  }
  INLAY_INLINE ~Status() {
    if (error_ != nullptr) detail::destroy(error_);
  }

  INLAY_INLINE bool ok() const { return error_ == nullptr; }
  INLAY_INLINE explicit operator bool() const { return ok(); }
  INLAY_INLINE StatusCode code() const { return error_ ? error_->code : StatusCode::ok; }
  // Ends with a zero: message().data() may be printed.
  INLAY_INLINE std::string_view message() const {
    return error_ ? std::string_view(error_->message(), error_->size) : std::string_view("ok");
  }

 private:
  const detail::Error* error_ = nullptr;
};

}  // namespace INLAY_VERSION_NAMESPACE

inline namespace INLAY_UNIT_ISA {

inline Status invalid(std::string_view message) { return {StatusCode::invalid_argument, message}; }
inline Status unsupported(std::string_view message) { return {StatusCode::unsupported, message}; }

// Either a T or the Status that says why there is none. Fallible constructors return it.
template <class T> using Expected = tl::expected<T, Status>;

inline tl::unexpected<Status> failure(StatusCode code, std::string_view message) {
  return tl::unexpected<Status>(Status(code, message));
}
inline tl::unexpected<Status> failure(Status status) { return tl::unexpected<Status>(std::move(status)); }

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
