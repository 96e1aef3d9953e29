// The words of a message, put together off the paths that succeed. Not std::string, whose members C++20 emits in every
// unit that uses them, for that unit's instructions and under one name (core/inline.hpp).
//
//   "has " + number(op.x.extents[1]) + " columns; it must have " + number(k)
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

#include <inlay/core/inline.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

class Text {
 public:
  Text() = default;
  Text(const char* words) : Text(std::string_view(words)) {}
  Text(std::string_view words) { append(words.data(), words.size()); }
  Text(Text&& other) noexcept : words_(other.words_), size_(other.size_) {
    other.words_ = nullptr;
    other.size_ = 0;
  }
  Text& operator=(Text&& other) noexcept {
    char* const words = words_;
    const std::size_t size = size_;
    words_ = other.words_, size_ = other.size_;
    other.words_ = words, other.size_ = size;
    return *this;
  }
  ~Text() { std::free(words_); }

  bool empty() const { return size_ == 0; }
  operator std::string_view() const { return {words_, size_}; }
  operator std::string() const { return std::string(std::string_view(*this)); }
  Text& operator+=(std::string_view words) {
    append(words.data(), words.size());
    return *this;
  }
  friend Text operator+(Text&& a, std::string_view b) { return static_cast<Text&&>(a += b); }
  friend Text operator+(const Text& a, std::string_view b) { return Text(std::string_view(a)) + b; }
  friend Text operator+(const char* a, const Text& b) { return Text(a) + std::string_view(b); }

 private:
  // Without memory for more the message ends where it is.
  [[gnu::cold, gnu::noinline]] void append(const char* words, std::size_t size) {
    char* const longer = size == 0 ? nullptr : static_cast<char*>(std::realloc(words_, size_ + size));
    if (longer == nullptr) return;
    __builtin_memcpy(longer + size_, words, size);
    words_ = longer;
    size_ += size;
  }

  char* words_ = nullptr;
  std::size_t size_ = 0;
};

[[gnu::cold, gnu::noinline]] inline Text number_of(long long value) {
  char digits[24];
  return std::string_view(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%lld", value)));
}
[[gnu::cold, gnu::noinline]] inline Text number_of(double value) {
  char digits[330];  // of the largest double there are 309 before the point
  return std::string_view(digits, static_cast<std::size_t>(std::snprintf(digits, sizeof digits, "%f", value)));
}
template <class T> Text number(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return number_of(static_cast<double>(value));
  else
    return number_of(static_cast<long long>(value));
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
