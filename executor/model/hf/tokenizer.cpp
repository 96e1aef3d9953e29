#include "executor/model/hf/tokenizer.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/mapped_file.hpp>

#include "executor/model/hf/tokenizer_companions.hpp"
#include "executor/model/hf/tokenizer_json.hpp"
#include "executor/model/id_set.hpp"
#include "executor/model/sentencepiece.hpp"

namespace inlay::exec {
namespace {

// The ids under `key`: one, or a list of them. Those without a row never come, and say nothing.
template <class Take>
Status read_ids(const Json& json, const char* key, const std::string& path, index rows, const Take& take) {
  const Json value = json.find(key);
  for (const Json each : value.is_array() ? value.elements() : value.alone()) {
    if (each.is_null() && !value.is_array()) return {};
    if (!each.is_integer())
      return {StatusCode::corrupt_data,
              path + ": " + key + " is " + quote(written(value)) + "; it must be an id or a list of ids"};
    if (each.integer() >= 0 && each.integer() < rows) take(static_cast<std::int32_t>(each.integer()));
  }
  return {};
}

}  // namespace

Expected<TokenizerData> hf_tokenizer(const std::filesystem::path& directory, const Json& config, index rows) {
  std::error_code error;
  const auto exists = [&](const char* name) { return std::filesystem::exists(directory / name, error); };
  Expected<TokenizerData> t;
  // As `transformers` chooses. Beside a tokenizer.json the other may be of any form, such as tiktoken's.
  if (exists("tokenizer.json"))
    t = read_tokenizer_json((directory / "tokenizer.json").string(), rows);
  else if (exists("tokenizer.model"))
    t = read_sentencepiece((directory / "tokenizer.model").string());
  if (!t || t->kind == TokenizerData::Kind::none) return t;
  if (Status status = read_companions(directory, rows, *t); !status) return failure(std::move(status));
  if (t->kind == TokenizerData::Kind::none) return t;
  if (exists("chat_template.jinja")) {  // it wins over that of tokenizer_config.json
    auto chat = Mapping::file((directory / "chat_template.jinja").string());
    if (!chat) return failure(std::move(chat.error()));
    t->chat_template.assign(reinterpret_cast<const char*>((*chat)->data()), (*chat)->size());
  }
  // What is put around a text is a token; an end that is none, and yet has a row, ends it all the same.
  const auto is_token = [&](std::int32_t id) { return static_cast<std::size_t>(id) < t->tokens.size(); };
  const auto begin = [&](std::int32_t id) {
    if (t->bos < 0 && is_token(id)) t->bos = id;
  };
  IdSet ends(t->ends, static_cast<std::size_t>(rows));
  const auto end = [&](std::int32_t id) { ends.add(id); };
  const auto take = [&](const Json& json, const std::string& path) -> Status {
    if (Status status = read_ids(json, "bos_token_id", path, rows, begin); !status) return status;
    return read_ids(json, "eos_token_id", path, rows, end);
  };
  if (Status status = take(config, (directory / "config.json").string()); !status) return failure(std::move(status));
  if (exists("generation_config.json")) {
    const std::string path = (directory / "generation_config.json").string();
    auto generation = read_json(path);
    if (!generation) return failure(std::move(generation.error()));
    if (Status status = take(generation->root(), path); !status) return failure(std::move(status));
  }
  if (t->eos < 0)
    if (const auto first = std::find_if(t->ends.begin(), t->ends.end(), is_token); first != t->ends.end())
      t->eos = *first;
  return t;
}

}  // namespace inlay::exec
