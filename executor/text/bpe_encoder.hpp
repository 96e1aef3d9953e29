// Byte-level BPE (GPT-2, Llama 3, Qwen): words from the splitter, each cut into bytes, and neighbours
// merged in the order of the merge list.
#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/merge_symbols.hpp"
#include "executor/text/merge_table.hpp"
#include "executor/text/word_splitter.hpp"

namespace inlay::exec {

class BpeEncoder {
 public:
  // Looks at the texts of `data` for as long as it lives.
  static Expected<BpeEncoder> make(const TokenizerData& data);

  Status encode(std::string_view text, std::vector<std::int32_t>& out) const;

  // In the byte alphabet.
  std::int32_t find(std::string_view text) const { return table_.find(text); }

 private:
  BpeEncoder(WordSplitter splitter, MergeTable table) : splitter_(std::move(splitter)), table_(std::move(table)) {}

  Status encode_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) const;

  WordSplitter splitter_;
  MergeTable table_;
  bool whole_words_ = false;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace inlay::exec
