// The tokenizer beside a Hugging Face checkpoint: tokenizer.json with byte-level BPE, or
// SentencePiece's tokenizer.model; tokenizer_config.json adds special tokens to either.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/json_file.hpp>
#include <inlay/model/sentencepiece.hpp>

namespace inlay::exec {

namespace detail {

// Their expression to GGUF's name for it; empty for one that we do not know.
inline std::string pre_tokenizer_name(const Json& pre_tokenizer) {
  const Json* steps = find(pre_tokenizer, "pretokenizers");
  bool byte_level = false, own_regex = false;
  std::string regex;
  const auto look = [&](const Json& step) {
    const Json* type = find(step, "type");
    if (!type || !type->is_string()) return;
    if (*type == "ByteLevel") {
      byte_level = true;
      const Json* use = find(step, "use_regex");
      own_regex = !use || *use == true;
    }
    if (*type == "Split")
      if (const Json* pattern = find(step, "pattern"))
        if (const Json* text = find(*pattern, "Regex"); text && text->is_string()) regex = *text;
  };
  if (steps && steps->is_array())
    for (const Json& step : *steps) look(step);
  else
    look(pre_tokenizer);
  const auto gpt4 = [](const char* digits) {
    return std::string("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|") + digits +
           "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  };
  if (byte_level && regex.empty() && own_regex) return "gpt-2";
  if (byte_level && regex == gpt4("\\p{N}{1,3}")) return "llama-bpe";
  if (byte_level && regex == gpt4("\\p{N}")) return "qwen2";
  return {};
}

// Collects tokens whose text has no place in a mapped file.
class HfVocabulary {
 public:
  using Type = TokenizerData::TokenType;
  explicit HfVocabulary(index rows) : rows_(rows) {}

  bool put(index id, const std::string& token, Type type) {
    if (id < 0 || id >= rows_) return false;
    const auto at = static_cast<std::size_t>(id);
    if (at >= tokens_->size()) tokens_->resize(at + 1), types_.resize(at + 1, Type::unused);
    (*tokens_)[at] = token, types_[at] = type;
    return true;
  }
  void merge(std::string text) { merges_->push_back(std::move(text)); }

  void move_into(TokenizerData& t) {
    t.tokens.assign(tokens_->begin(), tokens_->end());
    t.types = std::move(types_);
    t.merges.assign(merges_->begin(), merges_->end());
    t.text.push_back(tokens_), t.text.push_back(merges_);
  }

 private:
  index rows_;
  std::shared_ptr<std::vector<std::string>> tokens_ = std::make_shared<std::vector<std::string>>();
  std::shared_ptr<std::vector<std::string>> merges_ = std::make_shared<std::vector<std::string>>();
  std::vector<Type> types_;
};

inline Expected<TokenizerData> read_tokenizer_json(const std::string& path, index rows) {
  using Type = TokenizerData::TokenType;
  const auto corrupt = [&](const std::string& what) { return failure(StatusCode::corrupt_data, path + ": " + what); };
  const auto json = read_json(path);
  if (!json) return failure(json.error().code(), std::string(json.error().message()));
  TokenizerData t;
  const Json* model = find(*json, "model");
  const Json* type = model ? find(*model, "type") : nullptr;
  const Json* pre = find(*json, "pre_tokenizer");
  if (pre) t.pre = pre_tokenizer_name(*pre);
  if (!type || *type != "BPE" || t.pre.empty()) {
    t.problem = path + ": not a byte-level BPE tokenizer with the pre-tokenizer of GPT-2, Llama 3 or Qwen 2";
    return t;
  }
  const Json* vocab = find(*model, "vocab");
  const Json* merges = find(*model, "merges");
  if (!vocab || !vocab->is_object() || !merges || !merges->is_array()) return corrupt("no 'vocab' or no 'merges'");
  HfVocabulary words(rows);
  for (const auto& [token, id] : vocab->items())
    if (!id.is_number_integer() || !words.put(id.get<index>(), token, Type::normal))
      return corrupt("the token " + quote(token) + " has no id below the " + std::to_string(rows) +
                     " rows of the embedding");
  for (const Json& merge : *merges) {  // "a b", or ["a", "b"] in newer files
    if (merge.is_string())
      words.merge(merge.get<std::string>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      words.merge(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    else
      return corrupt("a merge that is no pair of tokens");
  }
  if (const Json* added = find(*json, "added_tokens"); added && added->is_array())
    for (const Json& each : *added) {
      const Json* id = find(each, "id");
      const Json* content = find(each, "content");
      const Json* special = find(each, "special");
      if (!id || !id->is_number_integer() || !content || !content->is_string() ||
          !words.put(id->get<index>(), content->get<std::string>(),
                     special && *special == true ? Type::control : Type::user_defined))
        return corrupt("an added token without content or with an id outside the embedding");
    }
  words.move_into(t);
  t.kind = TokenizerData::Kind::bpe;
  t.add_bos = t.pre == "llama-bpe";
  return t;
}

inline std::int32_t token_named(const TokenizerData& t, const Json* named) {
  if (named && named->is_object()) named = find(*named, "content");
  if (!named || !named->is_string()) return TokenizerData::no_token;
  const auto at = std::find(t.tokens.begin(), t.tokens.end(), named->get_ref<const std::string&>());
  return at == t.tokens.end() ? TokenizerData::no_token : static_cast<std::int32_t>(at - t.tokens.begin());
}

inline Status apply_tokenizer_config(const std::string& path, index rows, TokenizerData& t) {
  using Type = TokenizerData::TokenType;
  const auto json = read_json(path);
  if (!json) return {json.error().code(), std::string(json.error().message())};
  // SentencePiece models are given their chat tokens here, in places that they keep free.
  if (const Json* added = find(*json, "added_tokens_decoder"); added && added->is_object()) {
    auto texts = std::make_shared<std::vector<std::string>>();
    texts->reserve(added->size());
    for (const auto& [key, each] : added->items()) {
      const Json* content = find(each, "content");
      const Json* special = find(each, "special");
      const auto id = static_cast<std::size_t>(std::strtoull(key.c_str(), nullptr, 10));
      if (!content || !content->is_string() || id >= static_cast<std::size_t>(rows))
        return {StatusCode::corrupt_data,
                path + ": the added token " + quote(key) + " has no content or no row in the embedding"};
      if (id >= t.tokens.size()) {
        t.tokens.resize(id + 1), t.types.resize(id + 1, Type::unused);
        if (t.kind == TokenizerData::Kind::spm) t.scores.resize(id + 1);
      }
      texts->push_back(content->get<std::string>());
      if (t.types[id] == Type::unknown) continue;
      t.tokens[id] = texts->back();
      t.types[id] = special && *special == true ? Type::control : Type::user_defined;
    }
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

}  // namespace detail

// Kind::none where the directory has no tokenizer, and where it has one that we cannot run: weights are
// of use without it, and `problem` says what is the matter.
inline Expected<TokenizerData> hf_tokenizer(const std::filesystem::path& directory, const Json& config, index rows) {
  std::error_code error;
  const auto exists = [&](const char* name) { return std::filesystem::exists(directory / name, error); };
  Expected<TokenizerData> t;
  if (exists("tokenizer.model"))
    t = read_sentencepiece((directory / "tokenizer.model").string());
  else if (exists("tokenizer.json"))
    t = detail::read_tokenizer_json((directory / "tokenizer.json").string(), rows);
  if (!t || t->kind == TokenizerData::Kind::none) return t;
  if (exists("tokenizer_config.json"))
    if (Status status = detail::apply_tokenizer_config((directory / "tokenizer_config.json").string(), rows, *t);
        !status)
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
