#include "executor/text/bpe_encoder.hpp"

#include <string>
#include <utility>

#include "executor/text/byte_alphabet.hpp"

namespace inlay::exec {

Expected<BpeEncoder> BpeEncoder::make(const TokenizerData& data) {
  auto splitter = WordSplitter::make(data.pre);
  if (!splitter) return failure(std::move(splitter.error()));
  auto table = MergeTable::make(data);
  if (!table) return failure(std::move(table.error()));
  BpeEncoder encoder(std::move(*splitter), std::move(*table));
  encoder.whole_words_ = data.ignore_merges;
  for (unsigned b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    encoder.bytes_[b] = encoder.find(to_byte_alphabet({&byte, 1}));
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

Status BpeEncoder::encode_word(std::string_view word, std::vector<Symbol>& symbols,
                               std::vector<std::int32_t>& out) const {
  if (whole_words_)
    if (const std::int32_t id = find(to_byte_alphabet(word)); id >= 0) {
      out.push_back(id);
      return {};
    }
  symbols.clear();
  for (std::size_t i = 0; i < word.size(); ++i)
    if (Status status = add_byte(word, i, bytes_, symbols); !status) return status;
  table_.merge_all(symbols, out);
  return {};
}

}  // namespace inlay::exec
