// What OpenAI's clients get back: one object, or chunks of it as server-sent events.
#pragma once

#include <string>
#include <vector>

#include "tools/serve/protocol.hpp"
#include "tools/serve/worker.hpp"

namespace inlay::tools {

struct WrittenText {
  std::string text = {};
  Reply::Finish finish = Reply::Finish::stop;
};

class Responses {
 public:
  Responses(const std::string& model, const ApiRequest& request);

  std::string whole(const std::vector<WrittenText>& texts, index new_tokens) const;
  // Events: the beginning of each text, a piece, the end of a text, the usage (if it was asked for) with the end of
  // all.
  std::string opening() const;
  std::string piece(index text, const std::string& bytes) const;
  std::string ending(index text, Reply::Finish finish) const;
  std::string closing(index new_tokens) const;
  static std::string failing(const ApiError& error);

 private:
  using Object = nlohmann::ordered_json;
  Object head(bool is_chunk) const;
  Object usage(index new_tokens) const;
  std::string event(Object choices, const Object& usage = {}) const;
  std::string choice(index text, const std::string* bytes, const char* finish) const;

  std::string model_, id_;
  std::int64_t created_;
  bool chat_, include_usage_;
  index texts_, prompt_tokens_;
};

}  // namespace inlay::tools
