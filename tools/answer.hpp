// How `inlay run` writes, a text or the answers of a chat: the options that say how tokens are drawn and when to end,
// and what prints them as they come.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include <inlay/exec/generate.hpp>
#include <inlay/exec/stop_strings.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::tools {

struct AnswerOptions {
  index tokens = 128;
  bool tokens_given = false;
  Sampling<Host> sampling{.logits = {}, .tokens = {}, .temperature = 0};
  std::vector<std::string> biases;  // ID=VALUE
  std::vector<std::string> stops;
  index logprobs = -1;

  void add_to(CLI::App& command);
  Expected<std::vector<exec::LogitBias>> logit_biases(index vocab) const;
};

// Prints an answer to standard output, and to standard error how likely its tokens were, if that was asked for.
class Answer {
 public:
  // `text_start`: it opens a text (StreamDecoder).
  static Expected<Answer> make(const exec::Tokenizer& tokenizer, const AnswerOptions& options, bool text_start);

  // False where a stop string ends it.
  bool push(exec::Token token);
  // What was held back.
  void finish();
  // Of the token that was drawn last: it is in `session` what it was drawn from.
  Status tell_logprobs(exec::Session& session, exec::Token token) const;

  // All that was printed, and which of its bytes are special tokens that the model wrote (ChatMessage::own_tokens).
  const std::string& text() const { return text_; }
  std::string own_tokens() const;

 private:
  Answer(const exec::Tokenizer& tokenizer, exec::StopStrings stops, index logprobs, bool text_start)
      : tokenizer_(tokenizer), stream_(tokenizer, text_start), stops_(std::move(stops)), logprobs_(logprobs) {}
  void print(const std::string& text);

  exec::Tokenizer tokenizer_;
  exec::StreamDecoder stream_;
  exec::StopStrings stops_;
  index logprobs_;
  std::string text_;  // printed
  std::string own_;   // of all bytes that came, held back or not
};

// "prefill 100 tok/s (20 tokens), decode 50 tok/s (7 tokens)"
std::string rates(const exec::Generation& result);

}  // namespace inlay::tools
