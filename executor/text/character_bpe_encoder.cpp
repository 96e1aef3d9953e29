#include "executor/text/character_bpe_encoder.hpp"

#include <inlay/text/spm.hpp>

#include <algorithm>
#include <string>

#include "executor/text/utf8.hpp"

namespace inlay::exec {

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
    if (const std::int32_t id = length > 0 ? find(word.substr(begin, length)) : TokenizerData::no_token; id >= 0) {
      add_symbol(begin, length, id, symbols);
      begin = end;
    }
    for (; begin < end; ++begin)
      if (Status status = add_byte(word, begin, bytes_, symbols); !status) return status;
  }
  table_.merge_all(symbols, out);
  return {};
}

}  // namespace inlay::exec
