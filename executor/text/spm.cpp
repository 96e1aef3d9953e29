#include <inlay/text/spm.hpp>

namespace inlay::exec {

std::string spm_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) c == ' ' ? out += spm_space : out += c;
  return out;
}

std::string spm_unescape(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();)
    if (text.substr(i, spm_space.size()) == spm_space) {
      out += ' ';
      i += spm_space.size();
    } else {
      out += text[i++];
    }
  return out;
}

int spm_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace inlay::exec
