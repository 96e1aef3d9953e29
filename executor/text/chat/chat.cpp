#include <inlay/text/chat.hpp>

#include <algorithm>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"
#include "executor/text/chat/syntax.hpp"

namespace inlay::exec {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

bool is_white_space(std::string_view text) { return chat::leading_space(text) == text.size(); }

chat::Text content_of(const ChatMessage& message) {
  chat::Text text = chat::Text::of_message(message.content);
  for (std::size_t i = 0; i < message.own_tokens.size(); ++i)
    if (message.own_tokens[i] != 0) text.typed[i] = 0;
  return text;
}

}  // namespace

struct ChatTemplate::State {
  chat::Program program;
};

ChatOptions chat_options(const Tokenizer& tokenizer) {
  return {.bos = tokenizer.text_of(tokenizer.bos()),
          .eos = tokenizer.text_of(tokenizer.eos()),
          .unknown = tokenizer.text_of(tokenizer.unknown()),
          .padding = tokenizer.text_of(tokenizer.padding())};
}

Expected<ChatTemplate> ChatTemplate::make(std::string_view source) {
  auto program = chat::parse(source);
  if (!program) return failure(std::move(program.error()));
  return ChatTemplate(std::make_shared<const State>(State{std::move(*program)}));
}

Expected<ChatPrompt> ChatTemplate::render(const std::vector<ChatMessage>& messages, const ChatOptions& options) const {
  using chat::Value;
  chat::List list;
  for (const ChatMessage& message : messages) {
    if (!is_name(message.role))
      return failure(invalid("the role of message " + std::to_string(list.items.size()) + " is " + quote(message.role) +
                             "; it must be a word of letters, digits, _ and -"));
    if (!message.own_tokens.empty() && message.own_tokens.size() != message.content.size())
      return failure(invalid("own_tokens of message " + std::to_string(list.items.size()) + " has " +
                             std::to_string(message.own_tokens.size()) + " bytes; it must have " +
                             std::to_string(message.content.size()) + " as content, or none"));
    chat::Dict members;
    members.set({"role"}, Value::of(std::string_view(message.role)));
    members.set({"content"}, Value::of(content_of(message)));
    list.items.push_back(Value::of(std::move(members)));
  }
  chat::Evaluation::Variables variables{{"messages", Value::of(std::move(list))},
                                        {"tools", Value::none()},
                                        {"documents", Value::none()},
                                        {"add_generation_prompt", Value::of(options.add_generation_prompt)}};
  for (const auto& [name, text] : {std::pair{"bos_token", &options.bos}, std::pair{"eos_token", &options.eos},
                                   std::pair{"unk_token", &options.unknown}, std::pair{"pad_token", &options.padding}})
    if (!text->empty()) variables.emplace_back(name, Value::of(std::string_view(*text)));
  for (const auto& [name, value] : options.switches) variables.emplace_back(name, Value::of(value));
  const std::time_t now = options.now ? *options.now : std::time(nullptr);
  auto text = chat::Evaluation(state_->program, {options.most_steps, options.most_bytes}, now).run(variables);
  if (!text) return failure(std::move(text.error()));
  return ChatPrompt{std::move(text->bytes), std::move(text->typed)};
}

bool ChatTemplate::writes(std::string_view text) const {
  return std::any_of(state_->program.literals.begin(), state_->program.literals.end(),
                     [&](const std::string& literal) { return literal.find(text) != std::string::npos; });
}

Expected<std::vector<Token>> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                         const ChatPrompt& prompt) {
  std::vector<Token> guarded;
  for (const Token id : tokenizer.user_defined()) {
    const std::string text = tokenizer.text_of(id);
    if (tokenizer.stops(id) || (!is_white_space(text) && chat.writes(text))) guarded.push_back(id);
  }
  return tokenizer.encode(prompt.text, {.add_special = false, .typed = prompt.typed, .guarded = guarded});
}

}  // namespace inlay::exec
