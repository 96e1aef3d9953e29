// Vocabularies for tests: one of SPM by hand, and Qwen 2.5's of byte-level BPE as its merges imply it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/text/pre_tokenizer.hpp>
#include <inlay/text/tokenizer.hpp>

#include "executor/text/byte_alphabet.hpp"
#include "executor/text/utf8.hpp"
#include "tests/support/files.hpp"

namespace inlay::exec::test {

// <unk> <s> </s>, the 256 bytes, then a, b, ab, a space and a space before ab, all of the same score.
inline TokenizerData tiny_vocabulary() {
  TokenizerData v;
  auto text = std::make_shared<std::vector<std::string>>(std::vector<std::string>{"<unk>", "<s>", "</s>"});
  using Type = TokenizerData::TokenType;
  v.types = {Type::unknown, Type::control, Type::control};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(b));
    text->push_back(name), v.types.push_back(Type::byte);
  }
  for (const char* word : {"a", "b", "ab", "\xe2\x96\x81",
                           "\xe2\x96\x81"
                           "ab"})
    text->push_back(word), v.types.push_back(Type::normal);
  v.scores.assign(text->size(), 0);
  v.tokens.assign(text->begin(), text->end());
  v.kind = TokenizerData::Kind::spm;
  v.unknown = 0, v.bos = 1, v.eos = 2, v.add_bos = v.add_space_prefix = true;
  v.text.push_back(text);
  return v;
}

// Byte-level BPE of `merges` (lines of "left right"): 256 bytes, one token for each merge, then `specials`.
inline TokenizerData bpe_vocabulary(std::string_view pre, const std::string& merges,
                                    std::initializer_list<const char*> specials) {
  auto lines = std::make_shared<const std::string>(merges);
  auto texts = std::make_shared<std::vector<std::string>>();
  TokenizerData v;
  // The byte alphabet in order of its characters: what prints first, then the 68 others.
  std::vector<std::pair<unsigned, unsigned>> order;
  for (unsigned b = 0; b < 256; ++b) order.emplace_back(byte_alphabet()[b], b);
  std::sort(order.begin(), order.end());
  for (const auto& [point, b] : order) {
    const char byte = static_cast<char>(b);
    texts->push_back(to_byte_alphabet({&byte, 1}));
  }
  for (std::size_t at = 0; at < lines->size();) {
    const std::size_t end = std::min(lines->find('\n', at), lines->size());
    const std::string_view line(lines->data() + at, end - at);
    at = end + 1;
    const std::size_t space = line.find(' ');
    if (line.empty() || line.starts_with("#version")) continue;
    v.merges.push_back(line);
    texts->push_back(std::string(line.substr(0, space)) + std::string(line.substr(space + 1)));
  }
  using Type = TokenizerData::TokenType;
  v.types.assign(texts->size(), Type::normal);
  for (const char* special : specials) texts->push_back(special), v.types.push_back(Type::control);
  v.tokens.assign(texts->begin(), texts->end());
  v.kind = TokenizerData::Kind::bpe;
  set_pre_tokenizer(v, pre);
  v.eos = static_cast<Token>(texts->size()) - 1;
  v.text = {lines, texts};
  return v;
}

inline const std::string qwen_merges = shared_data + "tokenizers/qwen2.5_merges.txt";

inline TokenizerData qwen_vocabulary() {
  return bpe_vocabulary("qwen2", read_text(qwen_merges), {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
}

inline std::vector<Token> encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message();
  return ids ? *ids : std::vector<Token>{};
}

// No special tokens at the ends, and none in the text.
inline constexpr EncodeOptions plain{.add_special = false, .parse_special = false};

// Of every kind, in NFC.
inline const std::string texts[] = {
    "",
    " ",
    "Hello, world! It's 2024 and WE'LL see 1234567.",
    "  leading and trailing  ",
    "tabs\tand\r\nlines\n\n\n  indented",
    "\xe4\xbd\xa0\xe5\xa5\xbd\xef\xbc\x8c\xe4\xb8\x96\xe7\x95\x8c "
    "\xf0\x9f\xa6\x99\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9",
    "caf\xc3\xa9 na\xc3\xafve \xd0\xbd\xd0\xb5\xd1\x89\xd0\xbe \xe1\xa0\x8e\xc2\x85\xe3\x80\x80x",
    "int main() { return a[i] += ++b; }  // ===",
};

inline void expect_round_trip(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = encode(tokenizer, text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  // Piece by piece: every piece that comes out is whole characters, and together they are the text.
  StreamDecoder stream(tokenizer, true);
  std::string all;
  for (const Token id : ids) {
    const std::string part = stream.push(id);
    EXPECT_EQ(utf8_unfinished(part), 0u);
    all += part;
  }
  EXPECT_EQ(all + stream.finish(), text);
}

}  // namespace inlay::exec::test
