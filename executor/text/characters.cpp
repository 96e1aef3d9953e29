#include "executor/text/characters.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

using Character = utf8proc_int32_t;

// Of length 0 where there is no character at that end.
std::string_view first_character(std::string_view text) { return text.substr(0, utf8_character(text)); }
std::string_view last_character(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    if (utf8_character(tail) == length) return tail;
  }
  return {};
}

Character point(std::string_view character) {
  Character value = -1;
  if (!character.empty())
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                     static_cast<utf8proc_ssize_t>(character.size()), &value);
  return value;
}

bool is_white_space(Character c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_of_word(Character c) {
  if (c < 0) return false;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  // Letters in circles and squares are alphabetic symbols; the two joiners stand within words.
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

}  // namespace

std::size_t leading_white_space(std::string_view text) {
  std::size_t size = 0;
  for (std::string_view c; is_white_space(point(c = first_character(text.substr(size))));) size += c.size();
  return size;
}

std::size_t trailing_white_space(std::string_view text) {
  const std::size_t size = text.size();
  for (std::string_view c; is_white_space(point(c = last_character(text)));) text.remove_suffix(c.size());
  return size - text.size();
}

bool begins_with_word(std::string_view text) { return is_of_word(point(first_character(text))); }
bool ends_with_word(std::string_view text) { return is_of_word(point(last_character(text))); }

}  // namespace inlay::exec
