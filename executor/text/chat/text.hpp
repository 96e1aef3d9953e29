// A string of a chat template that remembers which of its bytes come from messages and which the template wrote. What
// is cut, joined or escaped keeps its marks byte for byte, so that special tokens can be looked for in the latter
// alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inlay::exec::chat {

struct Text {
  std::string bytes = {};
  std::string typed = {};  // 1 for each byte that comes from a message, 0 for the others; empty: all are the template's

  static Text of_message(std::string_view content) { return {std::string(content), std::string(content.size(), '\1')}; }

  std::size_t size() const { return bytes.size(); }
  bool is_typed(std::size_t at) const { return !typed.empty() && typed[at] != 0; }

  Text substr(std::size_t begin, std::size_t count = std::string::npos) const {
    return {bytes.substr(begin, count), typed.empty() ? std::string() : typed.substr(begin, count)};
  }
  void append(std::string_view more, bool is_typed = false) {
    if (is_typed) typed.resize(bytes.size());
    bytes += more;
    if (is_typed || !typed.empty()) typed.resize(bytes.size(), is_typed ? '\1' : '\0');
  }
  void append(const Text& other, std::size_t begin = 0, std::size_t count = std::string::npos) {
    if (!other.typed.empty()) typed.resize(bytes.size());
    bytes.append(other.bytes, begin, count);
    if (!other.typed.empty()) typed.append(other.typed, begin, count);
    if (!typed.empty()) typed.resize(bytes.size());
  }
};

// Bytes of the first character: of one that is none, 1. `text` is not empty.
std::size_t first_character(std::string_view text);
// Bytes of the last one, likewise.
std::size_t last_character(std::string_view text);
std::size_t count_characters(std::string_view text);
// Bytes of that many characters, or of all.
std::size_t bytes_of_characters(std::string_view text, std::size_t count);

// Where `what` stands in `text` from `begin` on, or npos: in time of their lengths, which std::string::find does not
// keep to.
std::size_t find_text(std::string_view text, std::string_view what, std::size_t begin = 0);

// Bytes of what str.isspace() of Python takes for white space at either end.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);
inline bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

}  // namespace inlay::exec::chat
