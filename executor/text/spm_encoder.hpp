// SentencePiece's BPE as Llama 1 and 2 and Mistral use it: a space becomes U+2581, characters merge
// by the score of the token they make, and a character without a token falls back to its bytes.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/seeded_hash.hpp"

namespace inlay::exec {

class SpmEncoder {
 public:
  // Looks at the texts of `data` for as long as it lives.
  static Expected<SpmEncoder> make(const TokenizerData& data);

  // `text` is escaped (spm.hpp).
  Status encode(std::string_view text, std::vector<std::int32_t>& out) const;

  std::int32_t find(std::string_view text) const;

 private:
  std::vector<float> scores_;  // before the map: GCC 12 mistakes a map's inner pointer for a Status where it lies first
  std::unordered_map<std::string_view, std::int32_t, SeededHash> ids_;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace inlay::exec
