#include "tools/serve/responses.hpp"

#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <random>

namespace inlay::tools {

namespace {

const char* name(Reply::Finish finish) { return finish == Reply::Finish::length ? "length" : "stop"; }

// A text may hold bytes that are no UTF-8: a model writes what it likes.
std::string dump(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string make_id(bool chat) {
  static thread_local std::mt19937_64 random{std::random_device()()};
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016" PRIx64, static_cast<std::uint64_t>(random()));
  return std::string(chat ? "chatcmpl-" : "cmpl-") + digits;
}

}  // namespace

Responses::Responses(const std::string& model, const ApiRequest& request)
    : model_(model),
      id_(make_id(request.chat)),
      created_(std::time(nullptr)),
      chat_(request.chat),
      include_usage_(request.include_usage),
      texts_(request.texts()),
      prompt_tokens_(request.prompt_tokens()) {}

Responses::Object Responses::head(bool is_chunk) const {
  const char* object = !chat_ ? "text_completion" : is_chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

Responses::Object Responses::usage(index new_tokens) const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", new_tokens},
          {"total_tokens", prompt_tokens_ + new_tokens}};
}

std::string Responses::whole(const std::vector<WrittenText>& texts, index new_tokens) const {
  Object choices = Object::array();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Object choice{{"index", i}};
    if (chat_)
      choice["message"] = {{"role", "assistant"}, {"content", texts[i].text}, {"refusal", nullptr}};
    else
      choice["text"] = texts[i].text;
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = name(texts[i].finish);
    choices.push_back(std::move(choice));
  }
  Object object = head(false);
  object["choices"] = std::move(choices);
  object["usage"] = usage(new_tokens);
  return dump(object);
}

std::string Responses::event(Object choices, const Object& usage) const {
  Object object = head(true);
  object["choices"] = std::move(choices);
  if (include_usage_) object["usage"] = usage;
  return "data: " + dump(object) + "\n\n";
}

std::string Responses::choice(index text, const std::string* bytes, const char* finish) const {
  Object choice{{"index", text}};
  if (chat_)
    choice["delta"] = bytes != nullptr ? Object{{"content", *bytes}} : Object::object();
  else
    choice["text"] = bytes != nullptr ? *bytes : "";
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish != nullptr ? Object(finish) : Object();
  Object choices = Object::array();
  choices.push_back(std::move(choice));
  return event(std::move(choices));
}

std::string Responses::opening() const {
  if (!chat_) return {};
  std::string events;
  for (index text = 0; text < texts_; ++text) {
    Object choices = Object::array();
    choices.push_back({{"index", text},
                       {"delta", {{"role", "assistant"}, {"content", ""}}},
                       {"logprobs", nullptr},
                       {"finish_reason", nullptr}});
    events += event(std::move(choices));
  }
  return events;
}

std::string Responses::piece(index text, const std::string& bytes) const { return choice(text, &bytes, nullptr); }

std::string Responses::ending(index text, Reply::Finish finish) const { return choice(text, nullptr, name(finish)); }

std::string Responses::closing(index new_tokens) const {
  return (include_usage_ ? event(Object::array(), usage(new_tokens)) : std::string()) + "data: [DONE]\n\n";
}

std::string Responses::failing(const ApiError& error) { return "data: " + to_body(error) + "\n\n"; }

}  // namespace inlay::tools
