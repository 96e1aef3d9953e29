#include "tools/serve/protocol.hpp"

#include <algorithm>
#include <charconv>
#include <random>

#include <inlay/core/quote.hpp>

namespace inlay::tools {

namespace {

constexpr std::size_t max_stops = 4, max_stop_bytes = 256, max_salt_bytes = 256, max_biases = 1024, max_messages = 4096;

// A seed for a client that names none: its texts are to differ from one call to the next.
std::int64_t any_seed() {
  static thread_local std::mt19937_64 random{std::random_device()()};
  return static_cast<std::int64_t>(random() >> 1);
}

void read_sampling(Fields& fields, Sampling<Host>& sampling) {
  sampling.temperature = static_cast<float>(fields.number("temperature", 0, 2).value_or(1));
  sampling.top_p = static_cast<float>(fields.number("top_p", 0, 1).value_or(1));
  sampling.min_p = static_cast<float>(fields.number("min_p", 0, 1).value_or(0));
  const std::int64_t top_k = fields.integer("top_k", -1, 1 << 30).value_or(0);
  sampling.top_k = static_cast<index>(top_k < 0 ? 0 : top_k);  // -1 is vLLM's "all"
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", -2, 2).value_or(0));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", -2, 2).value_or(0));
  sampling.repetition_penalty = static_cast<float>(fields.number("repetition_penalty", 1e-3, 1e3).value_or(1));
  const auto seed = fields.integer("seed", INT64_MIN, INT64_MAX);
  sampling.seed = seed ? *seed : any_seed();
}

std::vector<std::string> read_stops(Fields& fields) {
  const Json* stop = fields.any("stop");
  std::vector<std::string> all;
  if (stop == nullptr) return all;
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  for (const Json& each : list) {
    const std::string* text = each.get_ptr<const std::string*>();
    if (text == nullptr || text->empty() || text->size() > max_stop_bytes || list.size() > max_stops) {
      fields.wrong("stop", *stop,
                   "a string or up to " + std::to_string(max_stops) + " of them, each of 1 to " +
                       std::to_string(max_stop_bytes) + " bytes");
      return {};
    }
    all.push_back(*text);
  }
  return all;
}

void read_stream_options(Fields& fields, ApiRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.any("stream_options");
  if (options == nullptr) return;
  if (!request.stream)
    return fields.fail("stream_options", "stream_options is given without stream; it must be left out");
  if (!options->is_object())
    return fields.wrong("stream_options", *options, "an object with include_usage, true or false");
  Fields inner(*options);
  request.include_usage = inner.boolean("include_usage").value_or(false);
  if (const auto& error = inner.finish()) fields.fail("stream_options." + error->param, error->message);
}

// As vLLM's: who names a salt shares the cache with those alone who name it too.
std::string read_cache_salt(Fields& fields) {
  const auto salt = fields.string("cache_salt");
  if (salt && (salt->empty() || salt->size() > max_salt_bytes))
    fields.wrong("cache_salt", *salt, "of 1 to " + std::to_string(max_salt_bytes) + " bytes");
  return salt.value_or("");
}

void refuse_what_is_not_done(Fields& fields, bool chat) {
  for (const char* name :
       {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})
    fields.ignore(name);
  if (chat) {
    fields.refuse("logprobs", false, "log probabilities are not served");
    fields.refuse("top_logprobs", nullptr, "log probabilities are not served");
    fields.refuse("tools", Json::array(), "tools are not served");
    fields.refuse("tool_choice", "none", "tools are not served");
    fields.refuse("response_format", Json{{"type", "text"}}, "the form of an answer is not enforced");
  } else {
    fields.refuse("logprobs", nullptr, "log probabilities are not served");
    fields.refuse("echo", false, "the prompt is not told again");
    fields.refuse("suffix", "", "nothing is written between two texts");
    fields.refuse("best_of", 1, "no text is chosen among several; n gives them all");
  }
}

// The content of a message: a string, or parts that are text.
std::optional<std::string> content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string whole;
  for (const Json& part : content) {
    if (!part.is_object() || part.size() != 2 || part.value("type", Json()) != "text") return std::nullopt;
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) return std::nullopt;
    whole += text->get_ref<const std::string&>();
  }
  return whole;
}

bool is_role(const Json& role) {
  if (!role.is_string()) return false;
  const auto& name = role.get_ref<const std::string&>();
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
             std::string::npos;
}

}  // namespace

index ApiRequest::prompt_tokens() const {
  index sum = 0;
  for (const ApiPrompt& each : prompts) sum += static_cast<index>(each.tokens.size());
  return sum;
}

Protocol::Protocol(Model model) : model_(std::move(model)), chat_options_(exec::chat_options(model_.tokenizer)) {}

tl::expected<ApiRequest, ApiError> Protocol::read(const std::string& body, bool chat) const {
  Json object;
  if (auto error = parse_object(body, object)) return tl::unexpected(std::move(*error));
  Fields fields(object);
  if (const auto name = fields.string("model"); name && *name != model_.name)
    fields.fail("model", "model is " + quote(*name) + "; it must be " + quote(model_.name) + ", or left out",
                "model_not_found", 404);
  auto stops = exec::StopStrings::make(read_stops(fields));
  if (!stops) return tl::unexpected(ApiError{.message = std::string(stops.error().message()), .param = "stop"});
  ApiRequest request{.chat = chat, .stops = std::move(*stops)};
  read_sampling(fields, request.sampling);
  read_biases(fields, request);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.cache_salt = read_cache_salt(fields);
  read_stream_options(fields, request);
  refuse_what_is_not_done(fields, chat);
  request.choices = fields.integer("n", 1, model_.texts).value_or(1);
  auto tokens = fields.integer("max_tokens", 1, 1 << 30);
  if (chat)
    if (const auto newer = fields.integer("max_completion_tokens", 1, 1 << 30)) tokens = newer;
  request.tokens = tokens.value_or(16);
  chat ? read_messages(fields, request) : read_prompts(fields, request);
  if (chat && !tokens && !request.prompts.empty())  // an answer is as long as it likes
    request.tokens = std::max<index>(model_.room - request.prompt_tokens() + 1, 1);
  if (fields.ok() && request.texts() > model_.texts)
    fields.fail(chat ? "n" : "prompt", std::to_string(request.prompts.size()) + " prompts with n of " +
                                           std::to_string(request.choices) + " are " + std::to_string(request.texts()) +
                                           " texts; they must be at most " + std::to_string(model_.texts));
  if (const auto& error = fields.finish()) return tl::unexpected(*error);
  return request;
}

void Protocol::read_prompts(Fields& fields, ApiRequest& request) const {
  const Json* prompt = fields.any("prompt");
  if (prompt == nullptr) return fields.fail("prompt", "prompt is missing; it must be a string, or a list");
  if (prompt->is_string()) return read_text(fields, *prompt, request);
  if (!prompt->is_array() || prompt->empty())
    return fields.wrong("prompt", *prompt, "a string, strings, token ids, or lists of token ids");
  if (prompt->front().is_number()) return read_tokens(fields, *prompt, request);
  if (prompt->size() > static_cast<std::size_t>(model_.texts))
    return fields.fail("prompt", "prompt has " + std::to_string(prompt->size()) + " texts; it must have at most " +
                                     std::to_string(model_.texts));
  const bool strings = prompt->front().is_string();
  for (const Json& each : *prompt) {
    if (!fields.ok()) return;
    if (strings ? !each.is_string() : !each.is_array())
      return fields.wrong("prompt", *prompt, "a string, strings, token ids, or lists of token ids");
    strings ? read_text(fields, each, request) : read_tokens(fields, each, request);
  }
}

void Protocol::read_text(Fields& fields, const Json& text, ApiRequest& request) const {
  const auto& string = text.get_ref<const std::string&>();
  if (string.empty() && model_.tokenizer.bos() == exec::TokenizerData::no_token)
    return fields.fail("prompt", "prompt is empty and the model has no BOS token; it must have text");
  if (string.empty()) return add_prompt(fields, "prompt", {{model_.tokenizer.bos()}, true}, request);
  auto tokens = model_.tokenizer.encode(string);
  if (!tokens) return fields.fail("prompt", "prompt: " + std::string(tokens.error().message()));
  add_prompt(fields, "prompt", {std::move(*tokens), false}, request);
}

void Protocol::read_tokens(Fields& fields, const Json& tokens, ApiRequest& request) const {
  std::vector<exec::Token> ids;
  for (const Json& each : tokens) {
    const bool fits = each.is_number_unsigned() && each.get<std::uint64_t>() < static_cast<std::uint64_t>(model_.vocab);
    if (!fits)
      return fields.fail("prompt", "a token of prompt is " + printable(each.dump(-1, ' ', true), 60) +
                                       "; it must be in 0.." + std::to_string(model_.vocab - 1));
    ids.push_back(each.get<exec::Token>());
  }
  add_prompt(fields, "prompt", {std::move(ids), false}, request);
}

void Protocol::add_prompt(Fields& fields, const char* name, ApiPrompt prompt, ApiRequest& request) const {
  const auto count = static_cast<index>(prompt.tokens.size());
  if (count < 1 || count > model_.context)
    return fields.fail(name,
                       std::string(name) + " has " + std::to_string(count) + " tokens; it must have 1 to " +
                           std::to_string(model_.context) + ", the context",
                       count < 1 ? "" : "context_length_exceeded");
  request.prompts.push_back(std::move(prompt));
}

void Protocol::read_messages(Fields& fields, ApiRequest& request) const {
  const Json* messages = fields.any("messages");
  const Json* switches = fields.any("chat_template_kwargs");
  if (!model_.chat) return fields.fail("messages", "the model has no chat template; inlay serve --template names one");
  if (messages == nullptr || !messages->is_array() || messages->empty() || messages->size() > max_messages)
    return fields.wrong("messages", messages == nullptr ? Json() : *messages,
                        "a list of 1 to " + std::to_string(max_messages) + " messages");
  std::vector<exec::ChatMessage> texts;
  for (const Json& each : *messages) {
    const std::string name = "messages[" + std::to_string(texts.size()) + "]";
    const auto content =
        each.is_object() && each.size() == 2 ? content_of(each.value("content", Json())) : std::nullopt;
    if (!content || !is_role(each.value("role", Json())))
      return fields.wrong(
          name, each, "an object of role, a word, and content, a string or parts {\"type\": \"text\", \"text\": ..}");
    texts.push_back({each["role"].get<std::string>(), *content});
  }
  exec::ChatOptions options = chat_options_;
  if (switches != nullptr) {
    bool are_switches = switches->is_object();
    for (const auto& [name, value] : switches->items()) {
      are_switches = are_switches && value.is_boolean();
      if (are_switches) options.switches.emplace_back(name, value.get<bool>());
    }
    if (!are_switches) return fields.wrong("chat_template_kwargs", *switches, "an object of names and true or false");
  }
  const auto prompt = model_.chat->render(texts, options);
  if (!prompt) return fields.fail("messages", "messages: " + std::string(prompt.error().message()));
  auto tokens = exec::encode_chat(model_.tokenizer, *model_.chat, *prompt);
  if (!tokens) return fields.fail("messages", "messages: " + std::string(tokens.error().message()));
  add_prompt(fields, "messages", {std::move(*tokens), false}, request);
}

void Protocol::read_biases(Fields& fields, ApiRequest& request) const {
  const Json* biases = fields.any("logit_bias");
  if (biases == nullptr) return;
  const std::string must = "an object of up to " + std::to_string(max_biases) + " token ids in 0.." +
                           std::to_string(model_.vocab - 1) + " and numbers in -100..100";
  if (!biases->is_object() || biases->size() > max_biases) return fields.wrong("logit_bias", *biases, must);
  for (const auto& [name, value] : biases->items()) {
    exec::LogitBias bias{};
    const char* const end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, bias.token);
    const double added = value.is_number() ? value.get<double>() : 1000;
    if (read.ec != std::errc() || read.ptr != end || bias.token < 0 || bias.token >= model_.vocab || added < -100 ||
        added > 100)
      return fields.wrong("logit_bias", *biases, must);
    bias.bias = static_cast<float>(added);
    request.biases.push_back(bias);
  }
}

}  // namespace inlay::tools
