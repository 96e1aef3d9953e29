// The little that tokenizers need to know about UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace inlay::exec {

// Bytes of the character that starts with `lead`; 0 for continuation bytes and bytes that start nothing.
constexpr std::size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// A code point, which is no surrogate and at most U+10FFFF, as its bytes.
inline void append_utf8(std::string& out, std::uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
    return;
  }
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(lead[more] | point >> 6 * more);
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (point >> 6 * i & 0x3f));
}

// How many of the bytes at the front of `text` are the beginning of one valid character.
// No surrogates, no overlong forms, nothing above U+10FFFF: the second byte decides these.
constexpr std::size_t utf8_valid_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty() || utf8_length(byte(0)) == 0) return 0;
  const std::size_t length = utf8_length(byte(0));
  std::size_t valid = 1;
  for (; valid < length && valid < text.size(); ++valid) {
    unsigned char low = 0x80, high = 0xbf;
    if (valid == 1) {
      if (byte(0) == 0xe0) low = 0xa0;
      if (byte(0) == 0xed) high = 0x9f;
      if (byte(0) == 0xf0) low = 0x90;
      if (byte(0) == 0xf4) high = 0x8f;
    }
    if (byte(valid) < low || byte(valid) > high) break;
  }
  return valid;
}

// Length of the whole valid character at the front, 0 if there is none.
constexpr std::size_t utf8_character(std::string_view text) {
  const std::size_t valid = utf8_valid_bytes(text);
  return valid > 0 && valid == utf8_length(static_cast<unsigned char>(text[0])) ? valid : 0;
}

// How many bytes at the front are whole valid characters.
constexpr std::size_t utf8_stretch(std::string_view text) {
  std::size_t valid = 0;
  while (const std::size_t length = utf8_character(text.substr(valid))) valid += length;
  return valid;
}

// The bytes at the end that begin a character which further bytes may complete (0 to 3).
constexpr std::size_t utf8_unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    if (utf8_length(static_cast<unsigned char>(tail[0])) == 0) continue;  // a continuation byte: look further back
    return utf8_length(static_cast<unsigned char>(tail[0])) > back && utf8_valid_bytes(tail) == back ? back : 0;
  }
  return 0;
}

}  // namespace inlay::exec
