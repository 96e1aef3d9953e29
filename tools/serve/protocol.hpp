// OpenAI's completions and chat completions: JSON bodies to texts that a server can be asked for. No HTTP is in it.
//
// It is strict. A field that is not known, or that would change the answer and is not obeyed, is an error that names
// it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <inlay/exec/sampler.hpp>
#include <inlay/exec/stop_strings.hpp>
#include <inlay/text/chat.hpp>
#include <inlay/text/tokenizer.hpp>

#include "tools/serve/fields.hpp"

namespace inlay::tools {

struct ApiPrompt {
  std::vector<exec::Token> tokens;
  bool opens_text;  // nothing stands before the answer (StreamDecoder)
};

// What a body asks for: `choices` texts of each prompt.
struct ApiRequest {
  bool chat = false;
  std::vector<ApiPrompt> prompts = {};
  index choices = 1;
  index tokens = 16;  // new ones of each text, at most
  Sampling<Host> sampling = {.logits = {}, .tokens = {}};
  std::vector<exec::LogitBias> biases = {};
  exec::StopStrings stops;
  bool ignore_eos = false;
  std::string cache_salt = {};
  bool stream = false, include_usage = false;

  index texts() const { return static_cast<index>(prompts.size()) * choices; }
  index prompt_tokens() const;
};

class Protocol {
 public:
  struct Model {
    std::string name;
    exec::Tokenizer tokenizer;
    std::optional<exec::ChatTemplate> chat;
    index vocab, context;
    index room;   // tokens of one text that context and cache can hold
    index texts;  // that one request may ask for
  };
  explicit Protocol(Model model);

  const Model& model() const { return model_; }
  tl::expected<ApiRequest, ApiError> completion(const std::string& body) const { return read(body, false); }
  tl::expected<ApiRequest, ApiError> chat(const std::string& body) const { return read(body, true); }

 private:
  tl::expected<ApiRequest, ApiError> read(const std::string& body, bool chat) const;
  void read_prompts(Fields& fields, ApiRequest& request) const;
  void read_text(Fields& fields, const Json& text, ApiRequest& request) const;
  void read_tokens(Fields& fields, const Json& tokens, ApiRequest& request) const;
  void read_messages(Fields& fields, ApiRequest& request) const;
  void read_biases(Fields& fields, ApiRequest& request) const;
  void add_prompt(Fields& fields, const char* name, ApiPrompt prompt, ApiRequest& request) const;

  Model model_;
  exec::ChatOptions chat_options_;
};

}  // namespace inlay::tools
