#include "executor/text/byte_alphabet.hpp"

#include "executor/text/utf8.hpp"

namespace inlay::exec {

const std::array<std::uint16_t, 256>& byte_alphabet() {
  static const std::array<std::uint16_t, 256> table = [] {
    std::array<std::uint16_t, 256> t{};
    std::uint16_t next = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      t[b] = prints ? static_cast<std::uint16_t>(b) : next++;
    }
    return t;
  }();
  return table;
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, byte_alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

bool from_byte_alphabet(std::string_view text, std::string& out) {
  static const std::array<std::int16_t, 512> inverse = [] {
    std::array<std::int16_t, 512> t;
    t.fill(-1);
    for (unsigned b = 0; b < 256; ++b) t[byte_alphabet()[b]] = static_cast<std::int16_t>(b);
    return t;
  }();
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_character(text.substr(i));
    if (length != 1 && length != 2) return false;
    const unsigned point = length == 1 ? lead : (lead & 0x1fu) << 6 | (static_cast<unsigned char>(text[i + 1]) & 0x3fu);
    if (point >= inverse.size() || inverse[point] < 0) return false;
    out += static_cast<char>(inverse[point]);
    i += length;
  }
  return true;
}

}  // namespace inlay::exec
