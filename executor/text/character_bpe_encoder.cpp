#include "executor/text/character_bpe_encoder.hpp"

#include <inlay/text/spm.hpp>

#include <algorithm>
#include <string>

#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

void add_symbol(std::size_t begin, std::size_t length, std::int32_t token, std::vector<Symbol>& symbols) {
  const auto at = static_cast<std::int32_t>(symbols.size());
  symbols.push_back({at - 1, at + 1, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(length), token});
}

}  // namespace

Expected<CharacterBpeEncoder> CharacterBpeEncoder::make(const TokenizerData& data) {
  auto table = MergeTable::make(data);
  if (!table) return failure(std::move(table.error()));
  CharacterBpeEncoder encoder(std::move(*table));
  encoder.whole_words_ = data.ignore_merges, encoder.split_at_spaces_ = data.split_at_spaces;
  for (std::size_t i = 0; i < data.tokens.size(); ++i)
    if (data.types[i] == TokenizerData::TokenType::byte) {
      const int byte = spm_byte(data.tokens[i]);
      if (byte < 0)
        return failure(StatusCode::corrupt_data, "the byte token " + std::to_string(i) + " is not of the form <0x0A>");
      encoder.bytes_[static_cast<std::size_t>(byte)] = static_cast<std::int32_t>(i);
    }
  return encoder;
}

Status CharacterBpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  std::vector<Symbol> symbols;
  while (!text.empty()) {
    // A word begins with each space.
    const std::size_t next = split_at_spaces_ ? text.find(spm_space, 1) : std::string_view::npos;
    const std::string_view word = text.substr(0, next);
    if (Status status = encode_word(word, symbols, out); !status) return status;
    text.remove_prefix(word.size());
  }
  return {};
}

Status CharacterBpeEncoder::add_bytes(std::string_view word, std::size_t begin, std::size_t end,
                                      std::vector<Symbol>& symbols) const {
  for (; begin < end; ++begin) {
    const auto byte = static_cast<unsigned char>(word[begin]);
    if (bytes_[byte] < 0)
      return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " + std::to_string(byte)};
    add_symbol(begin, 1, bytes_[byte], symbols);
  }
  return {};
}

Status CharacterBpeEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                                        std::vector<std::int32_t>& out) const {
  if (whole_words_)
    if (const std::int32_t id = find(word); id >= 0) {
      out.push_back(id);
      return {};
    }
  symbols.clear();
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t length = utf8_character(word.substr(begin));
    const std::size_t end = begin + std::max<std::size_t>(length, 1);  // what is no UTF-8 goes by bytes
    const std::int32_t id = length > 0 ? find(word.substr(begin, length)) : TokenizerData::no_token;
    if (id >= 0)
      add_symbol(begin, length, id, symbols);
    else if (Status status = add_bytes(word, begin, end, symbols); !status)
      return status;
    begin = end;
  }
  symbols.back().next = -1;
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) { return table_.merge(left, right); });
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
    out.push_back(symbols[static_cast<std::size_t>(i)].token);
  return {};
}

}  // namespace inlay::exec
