// A string from a file as it may stand in a message: one line, of bounded length, printable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <inlay/core/inline.hpp>

namespace inlay {

inline namespace INLAY_UNIT_ISA {

inline std::string printable(std::string_view text, std::size_t longest = 80) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      (out += "\\x") += {digits[byte >> 4], digits[byte & 15]};
  }
  return text.size() > longest ? out + "..." : out;
}

inline std::string quote(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
