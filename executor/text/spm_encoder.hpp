// SentencePiece's BPE as Llama 1 and 2 and Mistral use it: a space becomes U+2581, characters merge
// by the score of the token they make, and a character without a token falls back to its bytes.
// User-defined pieces are cut out first, the longest at each place, and do not merge. Unused pieces
// merge like others, and what is one of them at the end is taken apart into what it was merged from.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/merge_symbols.hpp"
#include "executor/text/seeded_hash.hpp"
#include "executor/text/special_tokens.hpp"

namespace inlay::exec {

class SpmEncoder {
 public:
  // Looks at the texts of `data` for as long as it lives. `cuts`, by id: tokens that the text is cut at before it comes
  // here, which are no part of it.
  static Expected<SpmEncoder> make(const TokenizerData& data, const std::vector<bool>& cuts);

  // `text` is escaped (spm.hpp).
  Status encode(std::string_view text, std::vector<std::int32_t>& out, const TypedBytes& typed = {}) const;

  std::int32_t find(std::string_view text) const;

 private:
  // Of each unused piece: the letters of its left part, as it was last considered.
  using Halves = std::unordered_map<std::int32_t, std::uint32_t>;

  bool is(std::int32_t id, TokenizerData::TokenType type) const {
    return id >= 0 && types_[static_cast<std::size_t>(id)] == type;
  }
  void add_characters(std::string_view text, std::size_t begin, std::size_t end, std::vector<Symbol>& symbols) const;
  Status emit(std::string_view piece, std::int32_t id, const Halves& halves, std::vector<std::int32_t>& out) const;

  std::vector<float> scores_;  // before the map: GCC 12 mistakes a map's inner pointer for a Status where it lies first
  std::vector<TokenizerData::TokenType> types_;
  std::unordered_map<std::string_view, std::int32_t, SeededHash> ids_;
  SpecialTokens user_defined_;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace inlay::exec
