// A vocabulary as a file states it. Loaders fill it (inlay/model), Tokenizer works with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace inlay::exec {

struct TokenizerData {
  // character_bpe: BPE by rank as bpe, but over characters in SPM's writing, and over bytes "<0x0A>" where a character
  // has no token.
  enum class Kind { none, spm, bpe, character_bpe };
  // As in GGUF's tokenizer.ggml.token_type.
  enum class TokenType : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  static constexpr std::int32_t no_token = -1;

  Kind kind = Kind::none;
  std::string problem = {};                   // why there is none although the file brings one
  std::string pre = {};                       // bpe: the name of the pre-tokenizer (pre_tokenizer.hpp)
  bool ignore_merges = false;                 // both: a word that is a token is taken whole, merges or none
  bool nfc = false;                           // bpe: text is brought into Unicode's form NFC before it is cut
  std::vector<std::string_view> tokens = {};  // by id; bpe: in the byte alphabet of GPT-2
  // Special tokens that are looked for in what the others left over, after its normalization.
  std::vector<std::int32_t> normalized = {};
  // Special tokens that swallow the white space before or behind them, and those that are none within a word.
  std::vector<std::int32_t> lstrip = {}, rstrip = {}, single_word = {};
  std::vector<float> scores = {};             // spm
  std::vector<TokenType> types = {};          // by id
  std::vector<std::string_view> merges = {};  // both bpe: "left right", best first
  std::int32_t bos = no_token, eos = no_token, unknown = no_token, padding = no_token;
  std::vector<std::int32_t> ends = {};  // ids that end a text beside eos: all that any file names, some perhaps twice
  bool add_bos = false, add_eos = false, add_space_prefix = false;
  bool space_after_special = true;  // not bpe: the space prefix is put behind special tokens too, as before a text
  // User-defined tokens that are no pieces of the vocabulary: no letters make them. SPM cuts none but these out of the
  // text like special ones; its own user-defined pieces are text, as SentencePiece has them.
  std::vector<std::int32_t> added = {};
  bool remove_extra_spaces = false;  // spm: a run of spaces is one, and none at the ends of a text
  // character_bpe: a text that begins with a space gets no other before it, and special tokens in normal form are
  // looked for while spaces are still spaces.
  bool metaspace = false;
  bool split_at_spaces = false;  // character_bpe: a word begins with each space, and no merge reaches over that
  std::string chat_template = {};
  std::vector<std::shared_ptr<const void>> text = {};  // keeps what the views look at
};

}  // namespace inlay::exec
