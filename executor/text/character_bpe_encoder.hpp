// BPE over characters (tokenizer.json of Llama 1 and 2, Mistral and Gemma): a space is U+2581, neighbours merge in the
// order of the merge list, and a character without a token is its bytes.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/merge_symbols.hpp"
#include "executor/text/merge_table.hpp"

namespace inlay::exec {

class CharacterBpeEncoder {
 public:
  // Looks at the texts of `data` for as long as it lives.
  static Expected<CharacterBpeEncoder> make(const TokenizerData& data);

  // `text` is escaped (spm.hpp).
  Status encode(std::string_view text, std::vector<std::int32_t>& out) const;

  std::int32_t find(std::string_view text) const { return table_.find(text); }

 private:
  explicit CharacterBpeEncoder(MergeTable table) : table_(std::move(table)) { bytes_.fill(TokenizerData::no_token); }

  Status encode_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) const;

  MergeTable table_;
  bool whole_words_ = false, split_at_spaces_ = false;
  std::array<std::int32_t, 256> bytes_;
};

}  // namespace inlay::exec
