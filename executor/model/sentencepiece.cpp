//   ModelProto   1: piece*      { 1: text, 2: f32 score, 3: type }
//                2: trainer     { 3: model type, 24: whitespace as suffix, 35: byte fallback,
//                                 40..43: unk, bos, eos, pad id }
//                3: normalizer  { 2: character map, 3: add dummy prefix, 4: remove extra whitespace,
//                                 5: escape whitespace }
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include <inlay/core/view.hpp>
#include <inlay/model/mapped_file.hpp>

#include "executor/model/sentencepiece.hpp"

namespace inlay::exec {
namespace {

// Walks the fields of one message. A varint and the four bytes of an f32 arrive as `number`.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view bytes) : left_(bytes) {}

  std::uint64_t field = 0, number = 0;
  std::string_view text;

  // False at the end, or where the bytes are no message (then broken() is true).
  bool next() {
    if (left_.empty()) return false;
    std::uint64_t tag = 0;
    if (!varint(tag)) return fail();
    field = tag >> 3;
    number = 0;
    text = {};
    switch (tag & 7) {
      case 0: return varint(number) || fail();
      case 1: return take(8) || fail();
      case 2: return (varint(number) && take(number)) || fail();
      case 5:
        if (!take(4)) return fail();
        std::memcpy(&number, text.data(), 4);
        return true;
      default: return fail();
    }
  }
  bool broken() const { return broken_; }
  float real() const { return std::bit_cast<float>(static_cast<std::uint32_t>(number)); }

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(left_[0]);
      left_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool take(std::uint64_t count) {
    if (count > left_.size()) return false;
    text = left_.substr(0, static_cast<std::size_t>(count));
    left_.remove_prefix(static_cast<std::size_t>(count));
    return true;
  }
  bool fail() {
    broken_ = true;
    return false;
  }

  std::string_view left_;
  bool broken_ = false;
};

// Its first line is a token in base64 and a rank.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), std::size_t{1000}));
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space % 4 != 0) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_base64 = [&](char c) {
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '+' || c == '/' || c == '=';
  };
  const std::string_view token = line.substr(0, space), rank = line.substr(space + 1);
  return !rank.empty() && std::all_of(rank.begin(), rank.end(), is_digit) &&
         std::all_of(token.begin(), token.end(), is_base64);
}

}  // namespace

Expected<TokenizerData> read_sentencepiece(const std::string& path) {
  using Type = TokenizerData::TokenType;
  auto mapping = Mapping::file(path);
  if (!mapping) return failure(std::move(mapping.error()));
  TokenizerData t;
  t.kind = TokenizerData::Kind::spm;
  t.add_bos = t.add_space_prefix = true;
  constexpr std::uint64_t unigram = 1, bpe = 2;
  std::uint64_t model_type = unigram;
  t.unknown = 0, t.bos = 1, t.eos = 2;  // these and those below: the format's defaults
  const auto bytes = (*mapping)->bytes();
  if (is_tiktoken({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
    return TokenizerData{.problem = path +
                                    ": a list of tokens and ranks, as tiktoken has it; it must be SentencePiece's, "
                                    "or there must be a tokenizer.json"};
  bool broken = false, byte_fallback = false, space_as_suffix = false, map = false, escape = true;
  t.remove_extra_spaces = true;
  ProtoFields model({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  while (model.next()) {
    ProtoFields inner(model.text);
    if (model.field == 1) {
      std::string_view text;
      float score = 0;
      std::uint64_t type = 1;
      while (inner.next()) {
        if (inner.field == 1) text = inner.text;
        if (inner.field == 2) score = inner.real();
        if (inner.field == 3) type = inner.number;
      }
      // It would cost more memory than it has bytes in the file.
      if (text.empty())
        return failure(StatusCode::corrupt_data, path + ": piece " + std::to_string(t.tokens.size()) + " is empty");
      if (type < 1 || type > 6)
        return failure(StatusCode::corrupt_data,
                       path + ": a piece of type " + std::to_string(type) + "; it must be 1 to 6");
      t.tokens.push_back(text), t.scores.push_back(score), t.types.push_back(static_cast<Type>(type));
    } else if (model.field == 2) {
      while (inner.next()) {
        if (inner.field == 3) model_type = inner.number;
        if (inner.field == 24) space_as_suffix = inner.number != 0;
        if (inner.field == 35) byte_fallback = inner.number != 0;
        const auto id = static_cast<std::int32_t>(inner.number);  // -1 says "none"
        if (inner.field == 40) t.unknown = id;
        if (inner.field == 41) t.bos = id;
        if (inner.field == 42) t.eos = id;
        if (inner.field == 43) t.padding = id;
      }
    } else if (model.field == 3) {
      while (inner.next()) {
        if (inner.field == 2) map = !inner.text.empty();
        if (inner.field == 3) t.add_space_prefix = inner.number != 0;
        if (inner.field == 4) t.remove_extra_spaces = inner.number != 0;
        if (inner.field == 5) escape = inner.number != 0;
      }
    }
    broken = broken || inner.broken();
  }
  if (broken || model.broken() || t.tokens.empty())
    return failure(StatusCode::corrupt_data, path + ": no SentencePiece model");
  if (model_type != bpe)
    return failure(StatusCode::unsupported,
                   path + ": a SentencePiece model of type " + std::to_string(model_type) + "; it must be BPE");
  const char* problem = map               ? "a normalizer with a character map; it must be 'identity'"
                        : !escape         ? "escape_whitespaces is off; it must be on"
                        : space_as_suffix ? "treat_whitespace_as_suffix is on; it must be off"
                        : !byte_fallback  ? "byte_fallback is off; it must be on"
                                          : nullptr;
  if (problem) return TokenizerData{.problem = path + ": " + problem};
  for (std::int32_t* id : {&t.unknown, &t.bos, &t.eos, &t.padding})
    if (*id >= static_cast<index>(t.tokens.size()))
      return failure(StatusCode::corrupt_data, path + ": a special id of " + std::to_string(*id) + " is no piece");
    else if (*id < 0)
      *id = TokenizerData::no_token;
  t.text.push_back(std::move(*mapping));
  return t;
}

}  // namespace inlay::exec
