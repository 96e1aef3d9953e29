// What a prompt or a chat is in a model's tokens.
#include <algorithm>
#include <string>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/text/chat.hpp>

#include "bindings/c/arguments.hpp"
#include "bindings/c/code.hpp"
#include "bindings/c/model.hpp"
#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

using exec::Token;

// Where tokens go: as many as there is room for.
struct Room {
  std::int32_t* tokens;
  std::size_t room;
  std::size_t* count;

  Status check() const {
    if (count == nullptr) return invalid("count is null; it must be where the number of tokens is put");
    if (tokens == nullptr && room > 0)
      return invalid("tokens is null and has room for " + number(room) + "; it must have 0");
    return {};
  }
  Status put(const Expected<std::vector<Token>>& encoded) const {
    if (!encoded) return Status(encoded.error().code(), encoded.error().message());
    *count = encoded->size();
    std::copy_n(encoded->begin(), std::min(room, encoded->size()), tokens);
    return {};
  }
};

Status tokenize(const inlay_model* model, const char* text, std::size_t bytes, const Room& room) {
  if (model == nullptr) return invalid("model is null; it must be one that inlay_model_open gave");
  if (text == nullptr) return invalid("text is null; it must be a text");
  if (Status status = room.check(); !status.ok()) return status;
  return room.put(model->tokenizer.encode({text, bytes}));
}

Expected<std::vector<exec::ChatMessage>> read_messages(const inlay_chat& chat) {
  if (chat.messages == nullptr && chat.message_count > 0)
    return failure(invalid("messages is null; it must point to " + number(chat.message_count)));
  std::vector<exec::ChatMessage> messages;
  for (std::size_t i = 0; i < chat.message_count; ++i) {
    const inlay_chat_message& message = chat.messages[i];
    for (const auto& [name, text] : {std::pair("role", message.role), std::pair("content", message.content)})
      if (text == nullptr)
        return failure(invalid("messages[" + number(i) + "]." + name + " is null; it must be a text"));
    messages.push_back({message.role, std::string(message.content, message.bytes)});
  }
  return messages;
}

Status read_switches(const inlay_chat& chat, exec::ChatOptions& options) {
  if (chat.switches == nullptr && chat.switch_count > 0)
    return invalid("switches is null; it must point to " + number(chat.switch_count));
  for (std::size_t i = 0; i < chat.switch_count; ++i) {
    const inlay_argument& given = chat.switches[i];
    const Text name = "switches[" + number(i) + "]";
    if (given.name == nullptr) return invalid(name + " has no name; it must be one that the template asks for");
    if (given.kind != INLAY_FLAG)
      return invalid(name + ", " + Text(quote(given.name)) + ", is " + Text(name_of_kind(given.kind)) +
                     "; it must be a flag");
    if (given.integer != 0 && given.integer != 1)
      return invalid(name + ", " + Text(quote(given.name)) + ", is " + number(given.integer) + "; it must be 0 or 1");
    options.switches.emplace_back(given.name, given.integer == 1);
  }
  return {};
}

Status tokenize_chat(const inlay_model* model, const inlay_chat* given, const Room& room) {
  if (model == nullptr) return invalid("model is null; it must be one that inlay_model_open gave");
  if (given == nullptr) return invalid("chat is null; it must be a chat");
  if (Status status = room.check(); !status.ok()) return status;
  inlay_chat chat{};
  using C = inlay_chat;
  if (Status status =
          read_sized("inlay_chat", given, chat,
                     {INLAY_MEMBER(C, size), INLAY_MEMBER(C, messages), INLAY_MEMBER(C, message_count),
                      INLAY_MEMBER(C, switches), INLAY_MEMBER(C, switch_count), INLAY_MEMBER(C, chat_template)});
      !status.ok())
    return status;
  const auto messages = read_messages(chat);
  if (!messages) return Status(messages.error().code(), messages.error().message());
  exec::ChatOptions options = exec::chat_options(model->tokenizer);
  if (Status status = read_switches(chat, options); !status.ok()) return status;

  const std::string source = chat.chat_template != nullptr ? chat.chat_template : model->tokenizer.chat_template();
  if (source.empty())
    return {StatusCode::not_found, chat.chat_template != nullptr
                                       ? "chat_template is empty; it must be a template"
                                       : "the model has no chat template; chat_template must give one"};
  const auto made = exec::ChatTemplate::make(source);
  if (!made) return about("chat_template", made.error());
  const auto prompt = made->render(*messages, options);
  if (!prompt) return about("messages", prompt.error());
  return room.put(encode_chat(model->tokenizer, *made, *prompt));
}

}  // namespace

}  // namespace inlay::c

inlay_code inlay_model_tokenize(const inlay_model* model, const char* text, size_t bytes, int32_t* tokens, size_t room,
                                size_t* count) {
  return inlay::c::guarded([&] { return inlay::c::tokenize(model, text, bytes, {tokens, room, count}); });
}
inlay_code inlay_model_tokenize_chat(const inlay_model* model, const inlay_chat* chat, int32_t* tokens, size_t room,
                                     size_t* count) {
  return inlay::c::guarded([&] { return inlay::c::tokenize_chat(model, chat, {tokens, room, count}); });
}
