// Byte-level BPE (GPT-2, Llama 3, Qwen): words from the pre-tokenizer, each cut into bytes, and
// neighbours merged in the order of the merge list.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/text/merge_symbols.hpp>
#include <inlay/text/pre_tokenizer.hpp>

namespace inlay::exec {

// GPT-2 writes each byte as a printable character: bytes that print stand for themselves, the other
// 68 become U+0100, U+0101, ... in order.
inline const std::array<std::uint16_t, 256>& byte_alphabet() {
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

inline std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const unsigned point = byte_alphabet()[static_cast<unsigned char>(c)];
    if (point < 0x80)
      out += static_cast<char>(point);
    else
      (out += static_cast<char>(0xc0 | point >> 6)) += static_cast<char>(0x80 | (point & 0x3f));
  }
  return out;
}

// Appends the bytes that `text` stands for; false where a character is none of the alphabet.
inline bool from_byte_alphabet(std::string_view text, std::string& out) {
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

class BpeEncoder {
 public:
  static Expected<BpeEncoder> make(const TokenizerData& data) {
    using Type = TokenizerData::TokenType;
    auto pre = PreTokenizer::make(data.pre);
    if (!pre) return failure(std::move(pre.error()));
    BpeEncoder encoder(std::move(*pre));
    encoder.whole_words_ = data.pre == "llama-bpe" || data.pre == "llama3";
    encoder.ids_.reserve(data.tokens.size());
    for (std::size_t i = 0; i < data.tokens.size(); ++i)
      if (data.types[i] == Type::normal || data.types[i] == Type::user_defined)
        encoder.ids_.emplace(data.tokens[i], static_cast<std::int32_t>(i));
    for (unsigned b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      encoder.bytes_[b] = encoder.find(to_byte_alphabet({&byte, 1}));
    }
    encoder.merges_.reserve(data.merges.size());
    std::string both;
    for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
      const std::string_view merge = data.merges[rank];
      const std::size_t space = merge.find(' ', 1);
      std::int32_t left = TokenizerData::no_token, right = left, merged = left;
      if (space != std::string_view::npos) {
        left = encoder.find(merge.substr(0, space));
        right = encoder.find(merge.substr(space + 1));
        both.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        merged = encoder.find(both);
      }
      if (left < 0 || right < 0 || merged < 0)
        return failure(StatusCode::corrupt_data,
                       "the merge " + quote(merge) + " is not of two tokens that make a third");
      encoder.merges_.emplace(key(left, right), Rank{static_cast<std::int32_t>(rank), merged});
    }
    return encoder;
  }

  Status encode(std::string_view text, std::vector<std::int32_t>& out) const {
    std::vector<std::string_view> words;
    if (Status status = pre_.split(text, words); !status) return status;
    std::vector<Symbol> symbols;
    for (const std::string_view word : words)
      if (Status status = encode_word(word, symbols, out); !status) return status;
    return {};
  }

  // In the byte alphabet.
  std::int32_t find(std::string_view text) const {
    const auto at = ids_.find(text);
    return at == ids_.end() ? TokenizerData::no_token : at->second;
  }

 private:
  struct Rank {
    std::int32_t rank, token;
  };

  explicit BpeEncoder(PreTokenizer pre) : pre_(std::move(pre)) {}

  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }

  Status encode_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) const {
    // Llama 3: a word that is a token is taken whole, even where no merges lead to it.
    if (whole_words_)
      if (const std::int32_t id = find(to_byte_alphabet(word)); id >= 0) {
        out.push_back(id);
        return {};
      }
    symbols.clear();
    for (std::size_t i = 0; i < word.size(); ++i) {
      const auto byte = static_cast<unsigned char>(word[i]);
      if (bytes_[byte] < 0)
        return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " + std::to_string(byte)};
      const auto at = static_cast<std::int32_t>(i);
      symbols.push_back({at - 1, at + 1, static_cast<std::uint32_t>(i), 1, bytes_[byte]});
    }
    symbols.back().next = -1;
    merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> Merge {
      const auto found = merges_.find(key(a.token, b.token));
      if (found == merges_.end()) return {0, TokenizerData::no_token};
      return {-static_cast<double>(found->second.rank), found->second.token};
    });
    for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
      out.push_back(symbols[static_cast<std::size_t>(i)].token);
    return {};
  }

  PreTokenizer pre_;
  bool whole_words_ = false;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::array<std::int32_t, 256> bytes_{};
  std::unordered_map<std::uint64_t, Rank> merges_;
};

}  // namespace inlay::exec
