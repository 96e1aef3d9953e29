#include <algorithm>
#include <charconv>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <inlay/text/quote.hpp>

#include "executor/model/hf_tokenizer.hpp"
#include "executor/model/sentencepiece.hpp"
#include "executor/model/tokenizer_json.hpp"

namespace inlay::exec {
namespace {

std::int32_t token_named(const TokenizerData& t, const Json* named) {
  if (named && named->is_object()) named = find(*named, "content");
  if (!named || !named->is_string()) return TokenizerData::no_token;
  const auto at = std::find(t.tokens.begin(), t.tokens.end(), named->get_ref<const std::string&>());
  return at == t.tokens.end() ? TokenizerData::no_token : static_cast<std::int32_t>(at - t.tokens.begin());
}

// As it is written; a number that no vocabulary has where it is no id.
std::size_t id_of(const std::string& key) {
  std::size_t id = 0;
  const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
  return read.ec == std::errc{} && std::to_string(id) == key ? id : std::numeric_limits<std::size_t>::max();
}

Status apply_tokenizer_config(const std::string& path, index rows, TokenizerData& t) {
  using Type = TokenizerData::TokenType;
  const auto json = read_json(path);
  if (!json) return {json.error().code(), std::string(json.error().message())};
  // SentencePiece models are given their chat tokens here, in places that they keep free.
  if (const Json* added = find(*json, "added_tokens_decoder"); added && added->is_object()) {
    auto texts = std::make_shared<std::vector<std::string>>();
    texts->reserve(added->size());
    std::vector<bool> normal(static_cast<std::size_t>(rows));  // those that are looked for in normal form
    for (const std::int32_t token : t.normalized) normal[static_cast<std::size_t>(token)] = true;
    for (const auto& [key, each] : added->items()) {
      const Json* content = find(each, "content");
      const Json* special = find(each, "special");
      const auto id = id_of(key);
      if (!content || !content->is_string() || id >= static_cast<std::size_t>(rows))
        return {StatusCode::corrupt_data,
                path + ": the added token " + quote(key) + " has no content or no row in the embedding"};
      if (const std::string problem = added_token_problem(each); !problem.empty()) {
        t = TokenizerData{.problem = path + ": " + problem};
        return {};
      }
      if (id >= t.tokens.size()) {
        t.tokens.resize(id + 1), t.types.resize(id + 1, Type::unused);
        if (t.kind == TokenizerData::Kind::spm) t.scores.resize(id + 1);
      }
      texts->push_back(content->get<std::string>());
      if (t.types[id] == Type::unknown) continue;
      t.tokens[id] = texts->back();
      t.types[id] = special && *special == true ? Type::control : Type::user_defined;
      const Json* normalized = find(each, "normalized");
      normal[id] = t.kind == TokenizerData::Kind::bpe && normalized && *normalized == true;
    }
    t.normalized.clear();
    for (std::size_t id = 0; id < normal.size(); ++id)
      if (normal[id]) t.normalized.push_back(static_cast<std::int32_t>(id));
    t.text.push_back(std::move(texts));
  }
  if (const auto id = token_named(t, find(*json, "bos_token")); id >= 0) t.bos = id;
  if (const auto id = token_named(t, find(*json, "eos_token")); id >= 0) t.eos = id;
  if (const auto id = token_named(t, find(*json, "pad_token")); id >= 0) t.padding = id;
  JsonFields fields(*json, path);
  fields.boolean("add_bos_token", t.add_bos);
  fields.boolean("add_eos_token", t.add_eos);
  if (const Json* chat = find(*json, "chat_template"); chat && chat->is_string()) t.chat_template = *chat;
  return fields.take_status();
}

}  // namespace

Expected<TokenizerData> hf_tokenizer(const std::filesystem::path& directory, const Json& config, index rows) {
  std::error_code error;
  const auto exists = [&](const char* name) { return std::filesystem::exists(directory / name, error); };
  Expected<TokenizerData> t;
  if (exists("tokenizer.model"))
    t = read_sentencepiece((directory / "tokenizer.model").string());
  else if (exists("tokenizer.json"))
    t = read_tokenizer_json((directory / "tokenizer.json").string(), rows);
  if (!t || t->kind == TokenizerData::Kind::none) return t;
  if (exists("tokenizer_config.json"))
    if (Status status = apply_tokenizer_config((directory / "tokenizer_config.json").string(), rows, *t); !status)
      return failure(std::move(status));
  const auto id = [&](const char* key, std::int32_t& out) {
    const Json* value = find(config, key);
    if (value && value->is_array() && !value->empty()) value = &(*value)[0];
    if (out < 0 && value && value->is_number_integer() && value->get<index>() >= 0 &&
        value->get<index>() < static_cast<index>(t->tokens.size()))
      out = value->get<std::int32_t>();
  };
  id("bos_token_id", t->bos), id("eos_token_id", t->eos);
  return t;
}

}  // namespace inlay::exec
