#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/text/pre_tokenizer.hpp>

#include "executor/model/gguf/metadata.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/id_set.hpp"
#include "executor/text/seeded_hash.hpp"

namespace inlay::exec {

namespace {

// The format has no keys for these. Other readers go by the name of the pre-tokenizer.
constexpr const char* ignore_merges_key = "inlay.tokenizer.ignore_merges";
constexpr const char* nfc_key = "inlay.tokenizer.nfc";
constexpr const char* space_after_special_key = "inlay.tokenizer.space_after_special";
constexpr const char* character_bpe_key = "inlay.tokenizer.character_bpe";  // "llama", and yet merges go by rank
constexpr const char* metaspace_key = "inlay.tokenizer.metaspace";
constexpr const char* split_at_spaces_key = "inlay.tokenizer.split_at_spaces";
// Ids of special tokens.
constexpr std::pair<const char*, std::vector<std::int32_t> TokenizerData::*> id_lists[] = {
    {"inlay.tokenizer.normalized", &TokenizerData::normalized},   {"inlay.tokenizer.added", &TokenizerData::added},
    {"inlay.tokenizer.lstrip", &TokenizerData::lstrip},           {"inlay.tokenizer.rstrip", &TokenizerData::rstrip},
    {"inlay.tokenizer.single_word", &TokenizerData::single_word},
};
// Some writers' key for the whole set; most files name one of each kind.
constexpr const char* ends_key = "tokenizer.ggml.eos_token_ids";

// For readers that know no ranks: SentencePiece merges first what makes the token of the highest score.
std::vector<float> scores_of_ranks(const TokenizerData& t) {
  std::unordered_map<std::string, float, SeededHash> scores;
  for (std::size_t rank = 0; rank < t.merges.size(); ++rank) {
    std::string token(t.merges[rank]);
    if (const std::size_t space = token.find(' ', 1); space != std::string::npos) token.erase(space, 1);
    scores.emplace(std::move(token), -static_cast<float>(rank));
  }
  std::vector<float> all;
  for (const std::string_view token : t.tokens) {
    const auto at = scores.find(std::string(token));
    all.push_back(at == scores.end() ? -1e9f : at->second);
  }
  return all;
}

}  // namespace

Expected<TokenizerData> read_gguf_vocabulary(const GgufFile& file) {
  GgufMetadata meta(file);
  TokenizerData t;
  std::string model;
  if (!meta.text("tokenizer.ggml.model", model, false) || model == "none" || model == "no_vocab") {
    if (Status status = meta.take_status(); !status) return failure(std::move(status));
    return t;
  }
  if (model == "llama") {
    bool by_rank = false;
    meta.boolean(character_bpe_key, by_rank);
    t.kind = by_rank ? TokenizerData::Kind::character_bpe : TokenizerData::Kind::spm;
    t.add_bos = t.add_space_prefix = true;
  } else if (model == "gemma4") {
    t.kind = TokenizerData::Kind::character_bpe;
    t.add_bos = true;
  } else if (model == "gpt2") {
    t.kind = TokenizerData::Kind::bpe;
    std::string pre = "default";
    meta.text("tokenizer.ggml.pre", pre, false);
    set_pre_tokenizer(t, pre);
  } else {
    meta.fail(StatusCode::unsupported,
              "the tokenizer " + quote(model) + "; it must be llama (SPM), gpt2 (BPE) or gemma4 (BPE)");
  }
  const bool spm = t.kind == TokenizerData::Kind::spm;
  meta.strings("tokenizer.ggml.tokens", t.tokens, true);
  if (!spm) meta.strings("tokenizer.ggml.merges", t.merges, true);
  if (spm && !meta.array("tokenizer.ggml.scores", GgufType::f32, t.scores))
    meta.fail(StatusCode::not_found, "the key 'tokenizer.ggml.scores' is missing");
  std::vector<std::int32_t> types;
  if (!meta.array("tokenizer.ggml.token_type", GgufType::i32, types)) types.assign(t.tokens.size(), 1);
  for (const std::int32_t type : types) {
    if (type < 0 || type > 6) {
      meta.fail(StatusCode::corrupt_data, "a token has the type " + std::to_string(type) + "; it must be 0 to 6");
      break;
    }
    // 0, "undefined", is a word as others.
    t.types.push_back(type == 0 ? TokenizerData::TokenType::normal : static_cast<TokenizerData::TokenType>(type));
  }
  const std::size_t count = t.tokens.size();
  if (meta.ok() && (count == 0 || t.types.size() != count || (spm && t.scores.size() != count)))
    meta.fail(StatusCode::corrupt_data, "the vocabulary has " + std::to_string(count) + " tokens, " +
                                            std::to_string(t.scores.size()) + " scores and " +
                                            std::to_string(types.size()) + " types");
  const auto in_vocabulary = [&](const char* key, index value) {
    if (value >= 0 && value < static_cast<index>(count)) return true;
    if (value != -1 && value != 0xffffffff)  // how some files write "none"
      meta.fail(StatusCode::corrupt_data, std::string(key) + " is " + std::to_string(value) + "; the vocabulary has " +
                                              std::to_string(count) + " tokens");
    return false;
  };
  const auto id = [&](const char* key, std::int32_t& out) {
    if (index value = 0; meta.integer(key, value, false) && in_vocabulary(key, value))
      out = static_cast<std::int32_t>(value);
  };
  if (spm) t.bos = count > 1 ? 1 : TokenizerData::no_token, t.eos = count > 2 ? 2 : TokenizerData::no_token;
  id("tokenizer.ggml.bos_token_id", t.bos), id("tokenizer.ggml.eos_token_id", t.eos);
  id("tokenizer.ggml.unknown_token_id", t.unknown), id("tokenizer.ggml.padding_token_id", t.padding);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    std::int32_t end = TokenizerData::no_token;
    if (id(key, end); end >= 0) t.ends.push_back(end);
  }
  IdSet ends(t.ends, count);
  meta.integers(ends_key, [&](index end) {
    if (in_vocabulary(ends_key, end)) ends.add(static_cast<std::int32_t>(end));
  });
  meta.boolean("tokenizer.ggml.add_bos_token", t.add_bos);
  meta.boolean("tokenizer.ggml.add_eos_token", t.add_eos);
  meta.boolean("tokenizer.ggml.add_space_prefix", t.add_space_prefix);
  meta.boolean("tokenizer.ggml.remove_extra_whitespaces", t.remove_extra_spaces);
  // Without these keys it is what goes with the name of the pre-tokenizer.
  meta.boolean(ignore_merges_key, t.ignore_merges);
  meta.boolean(nfc_key, t.nfc);
  for (const auto& [key, list] : id_lists) meta.array(key, GgufType::i32, t.*list);
  meta.boolean(metaspace_key, t.metaspace);
  meta.boolean(split_at_spaces_key, t.split_at_spaces);
  meta.boolean(space_after_special_key, t.space_after_special);
  meta.text("tokenizer.chat_template", t.chat_template, false);
  t.text.push_back(file.mappings().front());
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  return t;
}

void write_gguf_vocabulary(const TokenizerData& t, index rows, GgufWriter& writer) {
  if (t.kind == TokenizerData::Kind::none) return writer.set("tokenizer.ggml.model", "none");
  const bool spm = t.kind == TokenizerData::Kind::spm;
  writer.set("tokenizer.ggml.model", t.kind == TokenizerData::Kind::bpe ? "gpt2" : "llama");
  writer.set("tokenizer.ggml.pre", t.pre.empty() ? "default" : t.pre);
  std::vector<std::string_view> tokens = t.tokens;
  std::vector<std::int32_t> types;
  for (const auto type : t.types) types.push_back(static_cast<std::int32_t>(type));
  std::vector<std::string> names;
  for (index i = static_cast<index>(tokens.size()); i < rows; ++i) names.push_back("[PAD" + std::to_string(i) + "]");
  for (const std::string& name : names)
    tokens.push_back(name), types.push_back(static_cast<std::int32_t>(TokenizerData::TokenType::unused));
  writer.set("tokenizer.ggml.tokens", std::span<const std::string_view>(tokens));
  writer.set("tokenizer.ggml.token_type", std::span<const std::int32_t>(types));
  if (spm) {
    std::vector<float> scores = t.scores;
    scores.resize(tokens.size(), -1e4f);
    writer.set("tokenizer.ggml.scores", std::span<const float>(scores));
    writer.set("tokenizer.ggml.remove_extra_whitespaces", t.remove_extra_spaces);
  } else {
    writer.set("tokenizer.ggml.merges", std::span<const std::string_view>(t.merges));
    writer.set(ignore_merges_key, t.ignore_merges);
    writer.set(nfc_key, t.nfc);
  }
  if (t.kind == TokenizerData::Kind::character_bpe) {
    std::vector<float> scores = scores_of_ranks(t);
    scores.resize(tokens.size(), -1e9f);
    writer.set("tokenizer.ggml.scores", std::span<const float>(scores));
    writer.set(character_bpe_key, true);
    writer.set(metaspace_key, t.metaspace);
    writer.set(split_at_spaces_key, t.split_at_spaces);
  }
  if (!t.space_after_special) writer.set(space_after_special_key, false);
  for (const auto& [key, list] : id_lists)
    if (!(t.*list).empty()) writer.set(key, std::span<const std::int32_t>(t.*list));
  const auto id = [&](const char* key, std::int32_t value) {
    if (value >= 0) writer.set(key, static_cast<std::uint32_t>(value));
  };
  id("tokenizer.ggml.bos_token_id", t.bos), id("tokenizer.ggml.eos_token_id", t.eos);
  id("tokenizer.ggml.unknown_token_id", t.unknown), id("tokenizer.ggml.padding_token_id", t.padding);
  if (!t.ends.empty()) {
    id("tokenizer.ggml.eot_token_id", t.ends[0]);
    writer.set(ends_key, std::span<const std::int32_t>(t.ends));
  }
  writer.set("tokenizer.ggml.add_bos_token", t.add_bos);
  writer.set("tokenizer.ggml.add_eos_token", t.add_eos);
  writer.set("tokenizer.ggml.add_space_prefix", t.add_space_prefix);
  if (!t.chat_template.empty()) writer.set("tokenizer.chat_template", t.chat_template);
}

}  // namespace inlay::exec
