#include "executor/text/bpe_encoder.hpp"

#include <inlay/core/quote.hpp>

#include <algorithm>
#include <string>

#include "executor/text/byte_alphabet.hpp"

namespace inlay::exec {
namespace {

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Expected<BpeEncoder> BpeEncoder::make(const TokenizerData& data) {
  using Type = TokenizerData::TokenType;
  auto splitter = WordSplitter::make(data.pre);
  if (!splitter) return failure(std::move(splitter.error()));
  BpeEncoder encoder(std::move(*splitter));
  encoder.whole_words_ = data.ignore_merges;
  const auto is_text = [](Type type) { return type == Type::normal || type == Type::user_defined; };
  encoder.ids_.reserve(static_cast<std::size_t>(std::count_if(data.types.begin(), data.types.end(), is_text)));
  for (std::size_t i = 0; i < data.tokens.size(); ++i)
    if (is_text(data.types[i])) encoder.ids_.emplace(data.tokens[i], static_cast<std::int32_t>(i));
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
      return failure(StatusCode::corrupt_data, "the merge " + quote(merge) + " is not of two tokens that make a third");
    // Of a merge that is listed twice the last rank counts, as in Hugging Face's tokenizers.
    encoder.merges_.insert_or_assign(key(left, right), Rank{static_cast<std::int32_t>(rank), merged});
  }
  return encoder;
}

Status BpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  std::vector<std::string_view> words;
  if (Status status = splitter_.split(text, words); !status) return status;
  std::vector<Symbol> symbols;
  for (const std::string_view word : words)
    if (Status status = encode_word(word, symbols, out); !status) return status;
  return {};
}

std::int32_t BpeEncoder::find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? TokenizerData::no_token : at->second;
}

Status BpeEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                               std::vector<std::int32_t>& out) const {
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

}  // namespace inlay::exec
