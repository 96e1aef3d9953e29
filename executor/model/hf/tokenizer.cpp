#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/tokenizer.hpp"
#include "executor/model/hf/tokenizer_json.hpp"
#include "executor/model/sentencepiece.hpp"

namespace inlay::exec {
namespace {

std::int32_t token_named(const TokenizerData& t, Json named) {
  if (named.is_object()) named = named.find("content");
  if (!named.is_string()) return TokenizerData::no_token;
  const auto at = std::find(t.tokens.begin(), t.tokens.end(), named.text());
  return at == t.tokens.end() ? TokenizerData::no_token : static_cast<std::int32_t>(at - t.tokens.begin());
}

// As it is written; a number that no vocabulary has where it is no id.
std::size_t id_of(std::string_view key) {
  std::size_t id = 0;
  const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
  return read.ec == std::errc{} && std::to_string(id) == key ? id : std::numeric_limits<std::size_t>::max();
}

Status apply_tokenizer_config(const std::string& path, index rows, TokenizerData& t) {
  using Type = TokenizerData::TokenType;
  auto document = read_json(path);
  if (!document) return std::move(document.error());
  const Json json = document->root();
  // SentencePiece models are given their chat tokens here, in places that they keep free.
  if (const Json added = json.find("added_tokens_decoder"); added.is_object()) {
    std::vector<bool> normal(static_cast<std::size_t>(rows));  // those that are looked for in normal form
    for (const std::int32_t token : t.normalized) normal[static_cast<std::size_t>(token)] = true;
    for (const auto& [key, each] : added.members()) {
      const Json content = each.find("content");
      const auto id = id_of(key);
      if (!content.is_string() || id >= static_cast<std::size_t>(rows))
        return {StatusCode::corrupt_data,
                path + ": the added token " + quote(key) + " has no content or no row in the embedding"};
      if (const std::string problem = added_token_problem(each); !problem.empty()) {
        t = TokenizerData{.problem = path + ": " + problem};
        return {};
      }
      if (id >= t.tokens.size()) {
        t.tokens.reserve(static_cast<std::size_t>(rows));  // grown by one again and again it would take twice that
        t.tokens.resize(id + 1), t.types.resize(id + 1, Type::unused);
        if (t.kind == TokenizerData::Kind::spm) t.scores.resize(id + 1);
      }
      if (t.types[id] == Type::unknown) continue;
      t.tokens[id] = content.text();
      t.types[id] = each.find("special").is_true() ? Type::control : Type::user_defined;
      normal[id] = t.kind == TokenizerData::Kind::bpe && each.find("normalized").is_true();
    }
    t.normalized.clear();
    for (std::size_t id = 0; id < normal.size(); ++id)
      if (normal[id]) t.normalized.push_back(static_cast<std::int32_t>(id));
    t.text.push_back(document->texts());
  }
  if (const auto id = token_named(t, json.find("bos_token")); id >= 0) t.bos = id;
  if (const auto id = token_named(t, json.find("eos_token")); id >= 0) t.eos = id;
  if (const auto id = token_named(t, json.find("pad_token")); id >= 0) t.padding = id;
  JsonFields fields(json, path);
  fields.boolean("add_bos_token", t.add_bos);
  fields.boolean("add_eos_token", t.add_eos);
  if (const Json chat = json.find("chat_template"); chat.is_string()) t.chat_template = chat.text();
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
    Json value = config.find(key);
    if (value.is_array()) value = value[0];
    if (out < 0 && value.is_integer() && value.integer() >= 0 && value.integer() < static_cast<index>(t->tokens.size()))
      out = static_cast<std::int32_t>(value.integer());
  };
  id("bos_token_id", t->bos), id("eos_token_id", t->eos);
  return t;
}

}  // namespace inlay::exec
