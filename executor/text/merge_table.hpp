// The tokens of a BPE vocabulary by their texts, and which two neighbours make a third, by rank.
#pragma once

#include <string_view>
#include <unordered_map>

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

  Merge merge(const Symbol& left, const Symbol& right) const;

 private:
  struct Rank {
    std::int32_t rank, token;
  };

  std::unordered_map<std::string_view, std::int32_t, SeededHash> ids_;
  std::unordered_map<std::uint64_t, Rank, SeededHash> merges_;  // by the two tokens
};

}  // namespace inlay::exec
