#include "executor/model/hf/tokenizer_json.hpp"

#include <inlay/core/quote.hpp>
#include <inlay/text/pre_tokenizer.hpp>
#include <inlay/text/spm.hpp>

#include <algorithm>
#include <bitset>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/model/hf/tokenizer_refusal.hpp"
#include "executor/model/hf/tokenizer_steps.hpp"

namespace inlay::exec {
namespace {

using Type = TokenizerData::TokenType;

class Reader {
 public:
  Reader(const std::string& path, index rows, const JsonDocument& document)
      : refusal_(path), rows_(rows), document_(document) {}

  Expected<TokenizerData> read() {
    const Json json = document_.root();
    // Padding and truncation are for whoever makes batches: they say nothing of the vocabulary.
    refusal_.keys(json, "file",
                  {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "model",
                   "post_processor", "decoder"});
    std::vector<std::string_view> splits;
    read_tokenizer_steps(json, refusal_, data_, splits);
    const Json model = json.find("model");
    if (check_model(model) && has_bytes()) set_words(splits);
    if (!refusal_.problem().empty()) return TokenizerData{.problem = refusal_.problem()};
    if (Status status = read_tokens(model, json.find("added_tokens")); !status) return failure(std::move(status));
    read_post_processor(json);
    if (!refusal_.problem().empty()) return TokenizerData{.problem = refusal_.problem()};
    data_.text.push_back(document_.texts());
    return std::move(data_);
  }

 private:
  Status corrupt(const std::string& what) const { return {StatusCode::corrupt_data, refusal_.path() + ": " + what}; }
  bool has_bytes() const { return data_.kind == TokenizerData::Kind::bpe; }

  bool check_model(const Json& model) {
    // Old files do not say it.
    const Json type = model.find("type");
    if (type != "BPE" && (type || !model.find("merges").is_array()))
      return refusal_.refuse("model's type", type, "\"BPE\"");
    // The last three of these are for characters without a token. Where characters are bytes, one without a token is an
    // error of the text that has it; elsewhere each byte must have one.
    refusal_.keys(model, "model",
                  {"type", "vocab", "merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix",
                   "ignore_merges", "unk_token", "fuse_unk", "byte_fallback"});
    if (const Json dropout = model.find("dropout"); dropout && !(dropout.is_number() && dropout.number() == 0))
      return refusal_.refuse("model's dropout", dropout, "0 or null");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json affix = model.find(key); affix && affix != "")
        return refusal_.refuse(std::string("model's ") + key, affix, "empty or null");
    const Json ignore = model.find("ignore_merges");
    if (ignore && !ignore.is_boolean()) return refusal_.refuse("model's ignore_merges", ignore, "a boolean");
    data_.ignore_merges = ignore.is_true();
    if (const Json bytes = model.find("byte_fallback"); !has_bytes() && !bytes.is_true())
      return refusal_.refuse("model's byte_fallback", bytes, "true where the pre_tokenizer has no ByteLevel");
    return true;
  }

  // Of the names with these words the one with these flags, since that is all which other readers of GGUF see.
  void set_words(const std::vector<std::string_view>& splits) {
    const PreTokenizer* best = nullptr;
    const auto agreeing = [&](const PreTokenizer& p) {
      return (p.ignore_merges == data_.ignore_merges) + (p.nfc == data_.nfc);
    };
    for (const PreTokenizer& known : pre_tokenizers())
      if (std::equal(splits.begin(), splits.end(), known.splits.begin(), known.splits.end()) &&
          (!best || agreeing(known) > agreeing(*best)))
        best = &known;
    if (best) {
      data_.pre = best->name;
      return;
    }
    constexpr std::size_t enough = 400;  // letters of a message
    std::string all;
    for (const std::string_view split : splits) {
      if (all.size() > enough) {
        all += ", then others";
        break;
      }
      (all += all.empty() ? "" : ", then ") += quote(split);
    }
    refusal_.refuse("the pre_tokenizer cuts at " + all + "; these words are unknown");
  }

  bool put(const Json& id, std::string_view token, Type type) {
    if (!id.is_integer() || id.integer() < 0 || id.integer() >= rows_) return false;
    const auto at = static_cast<std::size_t>(id.integer());
    if (at >= data_.tokens.size()) data_.tokens.resize(at + 1), data_.types.resize(at + 1, Type::unused);
    data_.tokens[at] = token, data_.types[at] = type;
    return true;
  }

  // The id, where a token of the vocabulary has it: one of the two would never be found again.
  index taken_by(const Json& id) const {
    if (!id.is_integer() || id.integer() < 0 || id.integer() >= static_cast<index>(data_.types.size())) return -1;
    return data_.types[static_cast<std::size_t>(id.integer())] == Type::unused ? -1 : id.integer();
  }

  Status read_tokens(const Json& model, const Json& added) {
    const Json vocab = model.find("vocab"), merges = model.find("merges");
    if (!vocab.is_object() || !merges.is_array()) return corrupt("no 'vocab' or no 'merges'");
    data_.tokens.reserve(static_cast<std::size_t>(rows_));  // grown as ids come it would take up to three times that
    std::bitset<256> bytes;
    for (const auto& [token, id] : vocab.members()) {
      if (const index taken = taken_by(id); taken >= 0)
        return corrupt("the token " + quote(token) + " has the id " + std::to_string(taken) + ", and so has " +
                       quote(data_.tokens[static_cast<std::size_t>(taken)]));
      const int byte = has_bytes() ? -1 : spm_byte(token);
      if (byte >= 0) bytes.set(static_cast<std::size_t>(byte));
      if (!put(id, token, byte < 0 ? Type::normal : Type::byte))
        return corrupt("the token " + quote(token) + " has no id below the " + std::to_string(rows_) +
                       " rows of the embedding");
    }
    if (!has_bytes() && !bytes.all()) {
      std::size_t missing = 0;
      while (bytes[missing]) ++missing;
      refusal_.refuse("the model's vocab has " + std::to_string(bytes.count()) + " bytes, and none for " +
                      std::to_string(missing) + "; it must have all from <0x00> to <0xFF>");
    }
    if (const Json unknown = model.find("unk_token"); unknown.is_string() && !has_bytes())
      if (const Json id = vocab.find(unknown.text()); id.is_integer())
        data_.unknown = static_cast<std::int32_t>(id.integer());
    if (Status status = read_merges(merges); !status) return status;
    if (added && !added.is_array()) return corrupt("'added_tokens' is no list");
    for (const Json each : added.elements()) {
      const Json content = each.find("content"), id = each.find("id");
      const bool special = each.find("special").is_true(), in_vocab = taken_by(id) >= 0;
      if (!content.is_string() || !put(id, content.text(), special ? Type::control : Type::user_defined))
        return corrupt("an added token without content or with an id outside the embedding");
      refusal_.keys(each, "added token " + quote(content.text()),
                    {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      if (const std::string problem = added_token_problem(each); !problem.empty()) refusal_.refuse(problem);
      const auto at = static_cast<std::int32_t>(id.integer());
      const Json normalized = each.find("normalized");
      if (!special && !in_vocab) data_.added.push_back(at);
      if (normalized ? normalized.is_true() : !special) data_.normalized.push_back(at);
      for (const auto& [key, list] : added_token_sides)
        if (each.find(key).is_true()) (data_.*list).push_back(at);
    }
    return {};
  }

  // "a b", or ["a", "b"] in newer files. What that makes is counted first: lists of them are most of a file.
  Status read_merges(const Json& merges) {
    const auto is_pair = [](const Json& merge) {
      return merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    };
    std::size_t letters = 0;
    for (const Json merge : merges.elements()) {
      const bool pair = is_pair(merge);
      if (!pair && !merge.is_string()) return corrupt("a merge that is no pair of tokens");
      if (pair) letters += merge[0].text().size() + 1 + merge[1].text().size();
      if (pair && merge[0].text().find(' ', 1) != std::string_view::npos)
        refusal_.refuse("merge", merge, "of a left token without a space within");
    }
    const auto joined = std::make_shared<std::string>();
    joined->reserve(letters);
    data_.merges.reserve(merges.size());
    for (const Json merge : merges.elements()) {
      const std::size_t begin = joined->size();
      if (merge.is_array()) ((*joined += merge[0].text()) += ' ') += merge[1].text();
      data_.merges.push_back(merge.is_array() ? std::string_view(*joined).substr(begin) : merge.text());
    }
    data_.text.push_back(joined);
    return {};
  }

  void read_post_processor(const Json& json) {
    bool template_seen = false;
    for (const Json step : refusal_.steps(json, "post_processor", "processors")) {
      const std::string_view type = type_of(step);
      if (type == "ByteLevel")  // offsets only
        refusal_.keys(step, "post_processor ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      else if (type == "TemplateProcessing" && !std::exchange(template_seen, true))
        read_template(step);
      else
        refusal_.refuse("post_processor", step, "ByteLevel, or one TemplateProcessing");
    }
  }

  // One token before the text is BOS, one behind it EOS. Pairs of texts are not ours.
  void read_template(const Json& step) {
    refusal_.keys(step, "post_processor TemplateProcessing", {"type", "single", "pair", "special_tokens"});
    const Json single = step.find("single"), tokens = step.find("special_tokens");
    const auto wrong = [&] {
      refusal_.refuse("template", single, "a text with at most one known token before and one behind");
    };
    if (!single.is_array()) return wrong();
    bool text_seen = false;
    for (const Json piece : single.elements()) {
      const Json name = piece.find("SpecialToken").find("id");
      if (piece.find("Sequence")) {
        if (std::exchange(text_seen, true)) return wrong();
        continue;
      }
      const Json ids = name.is_string() ? tokens.find(name.text()).find("ids") : Json();
      if (ids.size() != 1 || !ids[0].is_integer()) return wrong();
      const index id = ids[0].integer();
      if (id < 0 || id >= static_cast<index>(data_.tokens.size())) return wrong();
      if (std::exchange(text_seen ? data_.add_eos : data_.add_bos, true)) return wrong();
      (text_seen ? data_.eos : data_.bos) = static_cast<std::int32_t>(id);
    }
    if (!text_seen) wrong();
  }

  TokenizerRefusal refusal_;
  index rows_;
  const JsonDocument& document_;
  TokenizerData data_;
};

}  // namespace

std::string added_token_problem(const Json& token) {
  for (const auto& [key, list] : added_token_sides)
    if (const Json value = token.find(key); value && !value.is_boolean())
      return std::string("the ") + key + " of the added token " + quote(written(token.find("content"))) + " is " +
             quote(written(value)) + "; it must be a boolean";
  return {};
}

Expected<TokenizerData> read_tokenizer_json(const std::string& path, index rows) {
  auto document = read_json(path);
  if (!document) return failure(std::move(document.error()));
  return Reader(path, rows, *document).read();
}

}  // namespace inlay::exec
