// The tokens of a BPE vocabulary by their texts, and which two neighbours make a third, by rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/merge_symbols.hpp"
#include "executor/text/seeded_hash.hpp"

namespace inlay::exec {

class MergeTable {
 public:
  // Looks at the texts of `data` for as long as it lives.
  static Expected<MergeTable> make(const TokenizerData& data);

  // A token that letters may make: no control token.
  std::int32_t find(std::string_view text) const;

  // Merges what can be merged, and appends the tokens that are left. `symbols` holds some.
  void merge_all(std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) const;

 private:
  struct Rank {
    std::int32_t rank, token;
  };

  Merge merge(const Symbol& left, const Symbol& right) const;

  std::unordered_map<std::string_view, std::int32_t, SeededHash> ids_;
  std::unordered_map<std::uint64_t, Rank, SeededHash> merges_;  // by the two tokens
};

// One byte of the text as a symbol; `bytes` has their tokens.
Status add_byte(std::string_view text, std::size_t at, const std::array<std::int32_t, 256>& bytes,
                std::vector<Symbol>& symbols);

}  // namespace inlay::exec
