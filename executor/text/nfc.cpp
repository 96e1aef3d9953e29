#include "executor/text/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

constexpr auto form = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

Status refusal(utf8proc_ssize_t error) {
  return {error == UTF8PROC_ERROR_NOMEM ? StatusCode::out_of_memory : StatusCode::internal,
          std::string("utf8proc: ") + utf8proc_errmsg(error)};
}

// Marks stand in the order of their classes, those of one class in the order of the text. utf8proc exchanges
// neighbours until it is so, which takes a thousand marks a million steps.
void sort_marks(std::vector<utf8proc_int32_t>& characters) {
  const auto rank = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  const auto is_mark = [&](utf8proc_int32_t c) { return rank(c) != 0; };
  for (auto begin = characters.begin();;) {
    begin = std::find_if(begin, characters.end(), is_mark);
    if (begin == characters.end()) return;
    const auto end = std::find_if_not(begin, characters.end(), is_mark);
    if (!std::is_sorted(begin, end, [&](auto a, auto b) { return rank(a) < rank(b); }))
      std::stable_sort(begin, end, [&](auto a, auto b) { return rank(a) < rank(b); });
    begin = end;
  }
}

// `text` is valid UTF-8.
Status append_nfc(std::string_view text, std::string& out) {
  std::vector<utf8proc_int32_t> characters;
  characters.reserve(text.size() / 2);
  std::array<utf8proc_int32_t, 8> parts;  // four is the most that Unicode has
  for (auto at = reinterpret_cast<const utf8proc_uint8_t*>(text.data()), end = at + text.size(); at < end;) {
    utf8proc_int32_t character = 0;
    at += utf8proc_iterate(at, end - at, &character);
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(character, parts.data(), parts.size(),
                                static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    if (count < 0) return refusal(count);
    characters.insert(characters.end(), parts.begin(), parts.begin() + count);
  }
  sort_marks(characters);
  const auto count =
      utf8proc_normalize_utf32(characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), form);
  if (count < 0) return refusal(count);
  std::array<utf8proc_uint8_t, 4> bytes;
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const auto size = utf8proc_encode_char(characters[static_cast<std::size_t>(i)], bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
  }
  return {};
}

}  // namespace

Expected<std::string> to_nfc(std::string_view text) {
  // Below U+0300 (cc 80) every character is in the form already, and none joins the one before it.
  const auto settled = [](char c) { return static_cast<unsigned char>(c) < 0xcc; };
  if (std::all_of(text.begin(), text.end(), settled)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    std::size_t valid = utf8_stretch(text);
    if (Status status = append_nfc(text.substr(0, valid), out); !status) return failure(std::move(status));
    if (valid < text.size()) out += text[valid++];
    text.remove_prefix(valid);
  }
  return out;
}

}  // namespace inlay::exec
