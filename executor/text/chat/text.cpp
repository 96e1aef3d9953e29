#include "executor/text/chat/text.hpp"

#include <algorithm>
#include <cstring>

#include "executor/text/utf8.hpp"

namespace inlay::exec::chat {
namespace {

bool is_space(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  switch (character.size()) {
    case 1: return (byte(0) >= 0x09 && byte(0) <= 0x0d) || (byte(0) >= 0x1c && byte(0) <= 0x20);
    case 2: return character == "\xc2\x85" || character == "\xc2\xa0";
    case 3:
      if (byte(0) == 0xe2 && byte(1) == 0x80)  // U+2000 to 200A, 2028, 2029, 202F
        return byte(2) <= 0x8a || byte(2) == 0xa8 || byte(2) == 0xa9 || byte(2) == 0xaf;
      return character == "\xe1\x9a\x80" || character == "\xe2\x81\x9f" || character == "\xe3\x80\x80";
    default: return false;
  }
}

}  // namespace

std::size_t first_character(std::string_view text) { return std::max<std::size_t>(1, utf8_character(text)); }

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text));
  return count;
}

// No valid character begins within another one, so that those counted from the end are those counted from the front.
std::size_t last_character(std::string_view text) {
  for (std::size_t length = 2; length <= std::min<std::size_t>(4, text.size()); ++length)
    if (utf8_character(text.substr(text.size() - length)) == length) return length;
  return 1;
}

std::size_t bytes_of_characters(std::string_view text, std::size_t count) {
  std::size_t bytes = 0;
  for (; count > 0 && bytes < text.size(); --count) bytes += first_character(text.substr(bytes));
  return bytes;
}

std::size_t find_text(std::string_view text, std::string_view what, std::size_t begin) {
  const void* const found = ::memmem(text.data() + begin, text.size() - begin, what.data(), what.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

std::size_t leading_space(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size()) {
    const std::size_t character = first_character(text.substr(length));
    if (!is_space(text.substr(length, character))) break;
    length += character;
  }
  return length;
}

std::size_t trailing_space(std::string_view text) {
  std::size_t begin = text.size();
  for (bool found = true; found;) {
    found = false;
    for (std::size_t length = 1; length <= std::min<std::size_t>(3, begin) && !found; ++length)
      if (is_space(text.substr(begin - length, length))) begin -= length, found = true;
  }
  return text.size() - begin;
}

}  // namespace inlay::exec::chat
