// Text to tokens and back.
//
//   Expected<Tokenizer> tokenizer = Tokenizer::make(file->tokenizer);
//   Expected<std::vector<std::int32_t>> ids = tokenizer->encode("Once upon a time");
//   StreamDecoder stream(*tokenizer);
//   for (int id : generated) std::cout << stream.push(id);             // whole characters only
//   std::cout << stream.finish();
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/dtype.hpp>
#include <inlay/core/status.hpp>
#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

using Token = std::int32_t;

struct EncodeOptions {
  bool add_special = true;    // BOS and EOS, where the vocabulary asks for them
  bool parse_special = true;  // "<|im_end|>" in the text is the token of that name, not its letters
  // 1 for each byte of the text of which no special token may be a part, whatever it says; as long as the text, or
  // empty. There user-defined tokens are found all the same, but for the guarded ones, which are sorted.
  std::string_view typed = {};
  std::span<const Token> guarded = {};
};

// One face of SPM, byte-level BPE and BPE over characters. Cheap to copy, safe to share between threads.
class Tokenizer {
 public:
  static Expected<Tokenizer> make(const TokenizerData& data);

  Expected<std::vector<Token>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of one token: may be a part of a character. Empty for control tokens and ids outside the vocabulary.
  std::string piece(Token id) const;

  // decode(encode(text)) == text, in NFC where the vocabulary normalizes. Control tokens print nothing.
  std::string decode(std::span<const Token> ids) const;

  index vocab_size() const;
  Token bos() const;  // TokenizerData::no_token where there is none
  Token eos() const;
  Token unknown() const;
  Token padding() const;
  // Generation stops at EOS, at every other id that the model's files name as an end, and at the end of a turn, which
  // is known by its name: <|eot_id|>, <|im_end|> and others.
  bool stops(Token id) const;
  // The token whose text is exactly this, or no_token.
  Token find(std::string_view text) const;
  // Those that text is cut at: control, unknown and user-defined tokens, but not SentencePiece's own user-defined
  // pieces.
  bool is_special(Token id) const;
  // SPM puts a space before the text, and where the model was made so behind each special token, and takes it away
  // again when it is printed.
  bool adds_space_prefix() const;
  bool space_follows(Token special) const;
  // A token as it stands in a text: of a special one its name. Empty for ids outside the vocabulary.
  std::string text_of(Token id) const;
  std::span<const Token> user_defined() const;
  const std::string& chat_template() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Prints tokens as they come and holds an unfinished UTF-8 character back until its last byte is there.
// `text_start`: the first token opens a text (it follows BOS), so that SPM's leading space is not printed.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool text_start = false)
      : tokenizer_(tokenizer), space_due_(text_start), bos_may_come_(text_start) {}

  std::string push(Token id);
  // What was held back; a broken character comes out as it is.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool space_due_;     // the next piece begins with SPM's space
  bool bos_may_come_;  // before it
  std::string held_;
};

}  // namespace inlay::exec
