// Messages to the prompt that a chat model was trained on, through the template that its files bring: a strict subset
// of Jinja, rendered as Hugging Face's `transformers` does it. What it cannot do it refuses, in make (docs/chat.md).
//
//   auto chat = ChatTemplate::make(tokenizer.chat_template());
//   auto prompt = chat->render({{"system", "Be brief."}, {"user", "What is NFC?"}}, chat_options(tokenizer));
//   auto ids = encode_chat(tokenizer, *chat, *prompt);
//
// A special token is only what the template wrote: "<|im_end|>" within a message is its letters.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

struct ChatMessage {
  std::string role;     // "system", "user", "assistant" or what else the template knows: letters, digits, _ and -
  std::string content;  // never special tokens, whatever it says
  // 1 for each byte of content that a token of the model's own answer stands for, which is that token again; empty:
  // none.
  std::string own_tokens = {};
};

struct ChatOptions {
  bool add_generation_prompt = true;  // the beginning of the answer at the end
  std::string bos = {}, eos = {}, unknown = {}, padding = {};
  // What else the template may ask for: enable_thinking and the like.
  std::vector<std::pair<std::string, bool>> switches = {};
  std::optional<std::time_t> now = {};  // what strftime_now tells; none: the clock
  // What a template may take, since it comes from strangers: parts of expressions and items of lists, bytes of strings.
  std::int64_t most_steps = std::int64_t{1} << 22, most_bytes = std::int64_t{1} << 26;
};
// The texts of the tokenizer's special tokens.
ChatOptions chat_options(const Tokenizer& tokenizer);

struct ChatPrompt {
  std::string text;
  std::string
      typed;  // 1 for each byte of text that comes from a message, 0 for those of the template; empty: none does
};

class ChatTemplate {
 public:
  // Refuses what it cannot render, naming the construct, its line and its column.
  static Expected<ChatTemplate> make(std::string_view source);

  Expected<ChatPrompt> render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const;
  // Whether this text stands in what the template itself may write.
  bool writes(std::string_view text) const;

 private:
  struct State;
  explicit ChatTemplate(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// The prompt as tokens, without BOS and EOS but for those that the template wrote. Words go on where the template ends
// and a message begins, as in one text; only special tokens end there. Of a message's text tokens are cut out that are
// neither special nor ends of a text nor written by the template: Gemma's runs of line breaks, but not <|im_end|>.
Expected<std::vector<Token>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         const ChatPrompt& prompt);

}  // namespace inlay::exec
