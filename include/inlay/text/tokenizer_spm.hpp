// SentencePiece's BPE as Llama 1 and 2 and Mistral use it: a space becomes U+2581, characters merge
// by the score of the token they make, and a character without a token falls back to its bytes.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/text/merge_symbols.hpp>
#include <inlay/text/utf8.hpp>

namespace inlay::exec {

inline constexpr std::string_view spm_space = "\xe2\x96\x81";

inline std::string spm_escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) c == ' ' ? out += spm_space : out += c;
  return out;
}

inline std::string spm_unescape(std::string_view text) {
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

// The byte that "<0x0A>" stands for, or -1.
inline int spm_byte(std::string_view token) {
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

class SpmEncoder {
 public:
  static Expected<SpmEncoder> make(const TokenizerData& data) {
    using Type = TokenizerData::TokenType;
    SpmEncoder encoder;
    encoder.scores_ = data.scores;
    encoder.bytes_.fill(data.unknown);
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
      if (std::isnan(data.scores[i]))
        return failure(StatusCode::corrupt_data, "token " + std::to_string(i) + " has the score NaN");
      const auto id = static_cast<std::int32_t>(i);
      if (data.types[i] == Type::byte) {
        const int byte = spm_byte(data.tokens[i]);
        if (byte < 0)
          return failure(StatusCode::corrupt_data,
                         "the byte token " + std::to_string(i) + " is not of the form <0x0A>");
        encoder.bytes_[static_cast<std::size_t>(byte)] = id;
      } else if (data.types[i] == Type::normal || data.types[i] == Type::user_defined) {
        // Control tokens are not text: no letters merge into them.
        encoder.ids_.emplace(data.tokens[i], id);
      }
    }
    return encoder;
  }

  // `text` is escaped. Its views are only looked at during the call.
  Status encode(std::string_view text, std::vector<std::int32_t>& out) const {
    std::vector<Symbol> symbols;
    symbols.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
      std::size_t length = utf8_character(text.substr(i));
      if (length == 0) length = 1;  // not UTF-8: by bytes, so that nothing is lost
      const auto at = static_cast<std::int32_t>(symbols.size());
      const auto begin = static_cast<std::uint32_t>(i);
      symbols.push_back({at - 1, at + 1, begin, static_cast<std::uint32_t>(length), find(text.substr(i, length))});
      i += length;
    }
    if (symbols.empty()) return {};
    symbols.back().next = -1;
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> Merge {
      const std::int32_t id = find(text.substr(a.begin, a.length + b.length));
      return {id < 0 ? 0.0 : static_cast<double>(scores_[static_cast<std::size_t>(id)]), id};
    });
    for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
      const Symbol& symbol = symbols[static_cast<std::size_t>(i)];
      if (symbol.token >= 0) {
        out.push_back(symbol.token);
        continue;
      }
      for (const char c : text.substr(symbol.begin, symbol.length)) {
        const std::int32_t id = bytes_[static_cast<unsigned char>(c)];
        if (id < 0)
          return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " +
                                                std::to_string(static_cast<unsigned char>(c)) +
                                                " and no unknown token"};
        out.push_back(id);
      }
    }
    return {};
  }

  std::int32_t find(std::string_view text) const {
    const auto at = ids_.find(text);
    return at == ids_.end() ? TokenizerData::no_token : at->second;
  }

 private:
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::vector<float> scores_;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace inlay::exec
