#include "executor/model/hf/tokenizer_json.hpp"

#include <inlay/core/quote.hpp>
#include <inlay/text/pre_tokenizer.hpp>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace inlay::exec {
namespace {

using Type = TokenizerData::TokenType;

std::string described(const Json& value) { return value ? quote(written(value)) : "missing"; }

std::string_view type_of(const Json& part) { return part.find("type").text(); }

class Reader {
 public:
  Reader(std::string path, index rows, const JsonDocument& document)
      : path_(std::move(path)), rows_(rows), document_(document) {}

  Expected<TokenizerData> read() {
    const Json json = document_.root();
    // Padding and truncation are for whoever makes batches: they say nothing of the vocabulary.
    keys(json, "file",
         {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor",
          "decoder"});
    read_normalizer(json);
    const auto splits = read_pre_tokenizer(json);
    const Json model = json.find("model");
    if (check_model(model)) set_words(splits);
    if (!data_.problem.empty()) return std::move(data_);
    if (Status status = read_tokens(model, json.find("added_tokens")); !status) return failure(std::move(status));
    read_post_processor(json);
    read_decoder(json);
    if (!data_.problem.empty()) return TokenizerData{.problem = data_.problem};
    data_.text.push_back(document_.texts());
    data_.kind = TokenizerData::Kind::bpe;
    return std::move(data_);
  }

 private:
  Status corrupt(const std::string& what) const { return {StatusCode::corrupt_data, path_ + ": " + what}; }
  // The first one is kept.
  bool refuse(const std::string& what) {
    if (data_.problem.empty()) data_.problem = path_ + ": " + what;
    return false;
  }
  bool refuse(std::string_view part, const Json& value, std::string_view wanted) {
    if (!data_.problem.empty()) return false;  // a million of them would be described for nothing
    return refuse("the " + std::string(part) + " is " + described(value) + "; it must be " + std::string(wanted));
  }
  void keys(const Json& part, std::string_view name, std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : part.members())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        refuse("the " + std::string(name) + " has the key " + quote(key) + ", which is unknown");
        return;
      }
  }

  // The steps of one part of the chain: none, itself, or those of a Sequence.
  Json::Elements steps(const Json& json, const char* part, const char* list) {
    const Json whole = json.find(part);
    if (!whole) return {};
    if (type_of(whole) != "Sequence") return whole.alone();
    keys(whole, part, {"type", list});
    const Json each = whole.find(list);
    if (!each.is_array()) refuse(std::string(part) + "'s " + list, each, "a list");
    return each.elements();
  }

  void read_normalizer(const Json& json) {
    for (const Json step : steps(json, "normalizer", "normalizers")) {
      if (type_of(step) != "NFC") refuse("normalizer", step, "NFC or null");
      keys(step, "normalizer NFC", {"type"});
      data_.nfc = true;
    }
  }

  // As expressions: PreTokenizer::splits.
  std::vector<std::string_view> read_pre_tokenizer(const Json& json) {
    std::vector<std::string_view> splits;
    bool bytes = false;
    for (const Json step : steps(json, "pre_tokenizer", "pretokenizers")) {
      const std::string_view type = type_of(step);
      if (bytes) refuse("pre_tokenizer's step behind ByteLevel", step, "left out");
      if (type == "Split") {
        keys(step, "pre_tokenizer Split", {"type", "pattern", "behavior", "invert"});
        const Json pattern = step.find("pattern"), regex = pattern.find("Regex"), behavior = step.find("behavior");
        if (!regex.is_string())
          refuse("pattern of the pre_tokenizer Split", pattern, "a Regex");
        else
          splits.push_back(regex.text());
        // Isolated keeps matches and what lies between them, whichever of the two `invert` calls the match.
        if (behavior != "Isolated") refuse("behavior of the pre_tokenizer Split", behavior, "\"Isolated\"");
      } else if (type == "Digits") {
        keys(step, "pre_tokenizer Digits", {"type", "individual_digits"});
        splits.push_back(step.find("individual_digits").is_true() ? "\\p{N}" : "\\p{N}+");
      } else if (type == "ByteLevel") {
        keys(step, "pre_tokenizer ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
        if (const Json space = step.find("add_prefix_space"); !space.is_false())
          refuse("add_prefix_space of the pre_tokenizer ByteLevel", space, "false");
        if (!step.find("use_regex").is_false()) splits.push_back(gpt2_words());
        bytes = true;
      } else {
        refuse("pre_tokenizer", step, "made of Split, Digits and ByteLevel");
      }
    }
    if (!bytes) refuse("pre_tokenizer", json.find("pre_tokenizer"), "byte-level: ByteLevel or a Sequence that ends so");
    return splits;
  }

  bool check_model(const Json& model) {
    if (type_of(model) != "BPE") return refuse("model's type", model.find("type"), "\"BPE\"");
    // The last three of these are for characters without a token. Here characters are bytes, and a byte without
    // a token is an error of the text that has it.
    keys(model, "model",
         {"type", "vocab", "merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges",
          "unk_token", "fuse_unk", "byte_fallback"});
    if (const Json dropout = model.find("dropout"); dropout && !(dropout.is_number() && dropout.number() == 0))
      return refuse("model's dropout", dropout, "0 or null");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json affix = model.find(key); affix && affix != "")
        return refuse(std::string("model's ") + key, affix, "empty or null");
    const Json ignore = model.find("ignore_merges");
    if (ignore && !ignore.is_boolean()) return refuse("model's ignore_merges", ignore, "a boolean");
    data_.ignore_merges = ignore.is_true();
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
    refuse("the pre_tokenizer cuts at " + all + "; these words are unknown");
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
    return data_.types[static_cast<std::size_t>(id.integer())] == Type::normal ? id.integer() : -1;
  }

  Status read_tokens(const Json& model, const Json& added) {
    const Json vocab = model.find("vocab"), merges = model.find("merges");
    if (!vocab.is_object() || !merges.is_array()) return corrupt("no 'vocab' or no 'merges'");
    data_.tokens.reserve(static_cast<std::size_t>(rows_));  // grown as ids come it would take up to three times that
    for (const auto& [token, id] : vocab.members()) {
      if (const index taken = taken_by(id); taken >= 0)
        return corrupt("the token " + quote(token) + " has the id " + std::to_string(taken) + ", and so has " +
                       quote(data_.tokens[static_cast<std::size_t>(taken)]));
      if (!put(id, token, Type::normal))
        return corrupt("the token " + quote(token) + " has no id below the " + std::to_string(rows_) +
                       " rows of the embedding");
    }
    if (Status status = read_merges(merges); !status) return status;
    if (added && !added.is_array()) return corrupt("'added_tokens' is no list");
    for (const Json each : added.elements()) {
      const Json content = each.find("content"), id = each.find("id");
      const bool special = each.find("special").is_true();
      if (!content.is_string() || !put(id, content.text(), special ? Type::control : Type::user_defined))
        return corrupt("an added token without content or with an id outside the embedding");
      keys(each, "added token " + quote(content.text()),
           {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      if (const std::string problem = added_token_problem(each); !problem.empty()) refuse(problem);
      const Json normalized = each.find("normalized");
      if (normalized ? normalized.is_true() : !special)
        data_.normalized.push_back(static_cast<std::int32_t>(id.integer()));
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
    for (const Json step : steps(json, "post_processor", "processors")) {
      const std::string_view type = type_of(step);
      if (type == "ByteLevel")  // offsets only
        keys(step, "post_processor ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      else if (type == "TemplateProcessing" && !std::exchange(template_seen, true))
        read_template(step);
      else
        refuse("post_processor", step, "ByteLevel, or one TemplateProcessing");
    }
  }

  // One token before the text is BOS, one behind it EOS. Pairs of texts are not ours.
  void read_template(const Json& step) {
    keys(step, "post_processor TemplateProcessing", {"type", "single", "pair", "special_tokens"});
    const Json single = step.find("single"), tokens = step.find("special_tokens");
    const auto wrong = [&] { refuse("template", single, "a text with at most one known token before and one behind"); };
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

  void read_decoder(const Json& json) {
    int good = 0, others = 0;
    for (const Json step : steps(json, "decoder", "decoders")) ++(type_of(step) == "ByteLevel" ? good : others);
    if (good != 1 || others != 0) refuse("decoder", json.find("decoder"), "ByteLevel");
  }

  std::string path_;
  index rows_;
  const JsonDocument& document_;
  TokenizerData data_;
};

}  // namespace

std::string added_token_problem(const Json& token) {
  for (const char* key : {"single_word", "lstrip", "rstrip"})
    if (const Json value = token.find(key); value && !value.is_false())
      return std::string("the ") + key + " of the added token " + described(token.find("content")) + " is " +
             described(value) + "; it must be false";
  return {};
}

Expected<TokenizerData> read_tokenizer_json(const std::string& path, index rows) {
  auto document = read_json(path);
  if (!document) return failure(std::move(document.error()));
  return Reader(path, rows, *document).read();
}

}  // namespace inlay::exec
