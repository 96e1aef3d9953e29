#include "executor/model/tokenizer_json.hpp"

#include <inlay/text/pre_tokenizer.hpp>
#include <inlay/text/quote.hpp>

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace inlay::exec {
namespace {

using Type = TokenizerData::TokenType;

std::string shown(const Json* value) {
  return value ? quote(value->dump(-1, ' ', false, Json::error_handler_t::replace)) : "missing";
}

std::string_view type_of(const Json& part) {
  const Json* type = find(part, "type");
  return type && type->is_string() ? std::string_view(type->get_ref<const std::string&>()) : std::string_view();
}

bool is(const Json* value, bool expected) { return value && value->is_boolean() && *value == expected; }

class Reader {
 public:
  Reader(std::string path, index rows) : path_(std::move(path)), rows_(rows) {}

  Expected<TokenizerData> read(const Json& json) {
    // Padding and truncation are for whoever makes batches: they say nothing of the vocabulary.
    keys(json, "file",
         {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor",
          "decoder"});
    read_normalizer(json);
    const auto splits = read_pre_tokenizer(json);
    const Json* model = find(json, "model");
    if (check_model(model)) set_words(splits);
    if (!data_.problem.empty()) return std::move(data_);
    if (Status status = read_tokens(*model, find(json, "added_tokens")); !status) return failure(std::move(status));
    read_post_processor(json);
    read_decoder(json);
    if (!data_.problem.empty()) return TokenizerData{.problem = data_.problem};
    data_.text = {texts_};
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
  bool refuse(std::string_view part, const Json* value, std::string_view wanted) {
    return refuse("the " + std::string(part) + " is " + shown(value) + "; it must be " + std::string(wanted));
  }
  void keys(const Json& part, std::string_view name, std::initializer_list<std::string_view> known) {
    if (!part.is_object()) return;
    for (const auto& [key, value] : part.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        refuse("the " + std::string(name) + " has the key " + quote(key) + ", which is unknown");
  }

  // The steps of one part of the chain: none, itself, or those of a Sequence.
  std::vector<const Json*> steps(const Json& json, const char* part, const char* list) {
    std::vector<const Json*> found;
    const Json* whole = find(json, part);
    if (!whole) return found;
    if (type_of(*whole) != "Sequence") return {whole};
    keys(*whole, part, {"type", list});
    const Json* each = find(*whole, list);
    if (!each || !each->is_array()) refuse(std::string(part) + "'s " + list, each, "a list");
    if (each && each->is_array())
      for (const Json& step : *each) found.push_back(&step);
    return found;
  }

  void read_normalizer(const Json& json) {
    for (const Json* step : steps(json, "normalizer", "normalizers")) {
      if (type_of(*step) != "NFC") refuse("normalizer", step, "NFC or null");
      keys(*step, "normalizer NFC", {"type"});
      data_.nfc = true;
    }
  }

  // As expressions: PreTokenizer::splits.
  std::vector<std::string> read_pre_tokenizer(const Json& json) {
    std::vector<std::string> splits;
    bool bytes = false;
    for (const Json* step : steps(json, "pre_tokenizer", "pretokenizers")) {
      const std::string_view type = type_of(*step);
      if (bytes) refuse("pre_tokenizer's step behind ByteLevel", step, "left out");
      if (type == "Split") {
        keys(*step, "pre_tokenizer Split", {"type", "pattern", "behavior", "invert"});
        const Json* pattern = find(*step, "pattern");
        const Json* regex = pattern ? find(*pattern, "Regex") : nullptr;
        const Json* behavior = find(*step, "behavior");
        if (!regex || !regex->is_string())
          refuse("pattern of the pre_tokenizer Split", pattern, "a Regex");
        else
          splits.push_back(*regex);
        // Isolated keeps matches and what lies between them, whichever of the two `invert` calls the match.
        if (!behavior || *behavior != "Isolated")
          refuse("behavior of the pre_tokenizer Split", behavior, "\"Isolated\"");
      } else if (type == "Digits") {
        keys(*step, "pre_tokenizer Digits", {"type", "individual_digits"});
        splits.push_back(is(find(*step, "individual_digits"), true) ? "\\p{N}" : "\\p{N}+");
      } else if (type == "ByteLevel") {
        keys(*step, "pre_tokenizer ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
        if (const Json* space = find(*step, "add_prefix_space"); !is(space, false))
          refuse("add_prefix_space of the pre_tokenizer ByteLevel", space, "false");
        if (!is(find(*step, "use_regex"), false)) splits.emplace_back(gpt2_words());
        bytes = true;
      } else {
        refuse("pre_tokenizer", step, "made of Split, Digits and ByteLevel");
      }
    }
    if (!bytes)
      refuse("pre_tokenizer", find(json, "pre_tokenizer"), "byte-level: ByteLevel or a Sequence that ends so");
    return splits;
  }

  bool check_model(const Json* model) {
    if (!model || type_of(*model) != "BPE") {
      const Json* type = model ? find(*model, "type") : nullptr;
      return refuse("model's type", type, "\"BPE\"");
    }
    // The last three of these are for characters without a token. Here characters are bytes, and a byte without
    // a token is an error of the text that has it.
    keys(*model, "model",
         {"type", "vocab", "merges", "dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges",
          "unk_token", "fuse_unk", "byte_fallback"});
    if (const Json* dropout = find(*model, "dropout"); dropout && *dropout != 0)
      return refuse("model's dropout", dropout, "0 or null");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (const Json* affix = find(*model, key); affix && *affix != "")
        return refuse(std::string("model's ") + key, affix, "empty or null");
    const Json* ignore = find(*model, "ignore_merges");
    if (ignore && !ignore->is_boolean()) return refuse("model's ignore_merges", ignore, "a boolean");
    data_.ignore_merges = is(ignore, true);
    return true;
  }

  // Of the names with these words the one with these flags, since that is all which other readers of GGUF see.
  void set_words(const std::vector<std::string>& splits) {
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
    std::string all;
    for (const std::string& split : splits) (all += all.empty() ? "" : ", then ") += quote(split);
    refuse("the pre_tokenizer cuts at " + all + "; these words are unknown");
  }

  bool put(const Json* id, const std::string& token, Type type) {
    if (!id || !id->is_number_integer() || id->get<index>() < 0 || id->get<index>() >= rows_) return false;
    const auto at = id->get<std::size_t>();
    if (at >= data_.tokens.size()) data_.tokens.resize(at + 1), data_.types.resize(at + 1, Type::unused);
    data_.tokens[at] = texts_->emplace_back(token), data_.types[at] = type;
    return true;
  }

  // The id, where a token of the vocabulary has it: one of the two would never be found again.
  index taken_by(const Json& id) const {
    if (!id.is_number_integer() || id.get<index>() < 0 || id.get<index>() >= static_cast<index>(data_.types.size()))
      return -1;
    return data_.types[id.get<std::size_t>()] == Type::normal ? id.get<index>() : -1;
  }

  Status read_tokens(const Json& model, const Json* added) {
    const Json* vocab = find(model, "vocab");
    const Json* merges = find(model, "merges");
    if (!vocab || !vocab->is_object() || !merges || !merges->is_array()) return corrupt("no 'vocab' or no 'merges'");
    data_.tokens.reserve(std::min(vocab->size(), static_cast<std::size_t>(rows_)));
    for (const auto& [token, id] : vocab->items()) {
      if (const index taken = taken_by(id); taken >= 0)
        return corrupt("the token " + quote(token) + " has the id " + std::to_string(taken) + ", and so has " +
                       quote(data_.tokens[static_cast<std::size_t>(taken)]));
      if (!put(&id, token, Type::normal))
        return corrupt("the token " + quote(token) + " has no id below the " + std::to_string(rows_) +
                       " rows of the embedding");
    }
    data_.merges.reserve(merges->size());
    for (const Json& merge : *merges) {  // "a b", or ["a", "b"] in newer files
      if (merge.is_string())
        data_.merges.push_back(texts_->emplace_back(merge.get_ref<const std::string&>()));
      else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
        data_.merges.push_back(texts_->emplace_back(merge[0].get_ref<const std::string&>() + " " +
                                                    merge[1].get_ref<const std::string&>()));
      else
        return corrupt("a merge that is no pair of tokens");
    }
    if (!added) return {};
    if (!added->is_array()) return corrupt("'added_tokens' is no list");
    for (const Json& each : *added) {
      const Json* content = find(each, "content");
      const bool special = is(find(each, "special"), true);
      if (!content || !content->is_string() ||
          !put(find(each, "id"), *content, special ? Type::control : Type::user_defined))
        return corrupt("an added token without content or with an id outside the embedding");
      keys(each, "added token " + quote(content->get_ref<const std::string&>()),
           {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      if (const std::string problem = added_token_problem(each); !problem.empty()) refuse(problem);
      const Json* normalized = find(each, "normalized");
      if (normalized ? is(normalized, true) : !special)
        data_.normalized.push_back(find(each, "id")->get<std::int32_t>());
    }
    return {};
  }

  void read_post_processor(const Json& json) {
    bool template_seen = false;
    for (const Json* step : steps(json, "post_processor", "processors")) {
      const std::string_view type = type_of(*step);
      if (type == "ByteLevel")  // offsets only
        keys(*step, "post_processor ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      else if (type == "TemplateProcessing" && !std::exchange(template_seen, true))
        read_template(*step);
      else
        refuse("post_processor", step, "ByteLevel, or one TemplateProcessing");
    }
  }

  // One token before the text is BOS, one behind it EOS. Pairs of texts are not ours.
  void read_template(const Json& step) {
    keys(step, "post_processor TemplateProcessing", {"type", "single", "pair", "special_tokens"});
    const Json* single = find(step, "single");
    const Json* tokens = find(step, "special_tokens");
    const auto wrong = [&] { refuse("template", single, "a text with at most one known token before and one behind"); };
    if (!single || !single->is_array()) return wrong();
    bool text_seen = false;
    for (const Json& piece : *single) {
      const Json* token = find(piece, "SpecialToken");
      const Json* name = token ? find(*token, "id") : nullptr;
      if (find(piece, "Sequence")) {
        if (std::exchange(text_seen, true)) return wrong();
        continue;
      }
      const Json* known =
          name && name->is_string() && tokens ? find(*tokens, name->get_ref<const std::string&>()) : nullptr;
      const Json* ids = known ? find(*known, "ids") : nullptr;
      if (!ids || !ids->is_array() || ids->size() != 1 || !(*ids)[0].is_number_integer()) return wrong();
      const auto id = (*ids)[0].get<index>();
      if (id < 0 || id >= static_cast<index>(data_.tokens.size())) return wrong();
      if (std::exchange(text_seen ? data_.add_eos : data_.add_bos, true)) return wrong();
      (text_seen ? data_.eos : data_.bos) = static_cast<std::int32_t>(id);
    }
    if (!text_seen) wrong();
  }

  void read_decoder(const Json& json) {
    const auto decoders = steps(json, "decoder", "decoders");
    if (decoders.size() != 1 || type_of(*decoders[0]) != "ByteLevel")
      refuse("decoder", find(json, "decoder"), "ByteLevel");
  }

  std::string path_;
  index rows_;
  TokenizerData data_;
  // It has no place in a mapped file. A deque: what is there stays where it is.
  std::shared_ptr<std::deque<std::string>> texts_ = std::make_shared<std::deque<std::string>>();
};

}  // namespace

std::string added_token_problem(const Json& token) {
  for (const char* key : {"single_word", "lstrip", "rstrip"})
    if (const Json* value = find(token, key); value && !is(value, false))
      return std::string("the ") + key + " of the added token " + shown(find(token, "content")) + " is " +
             shown(value) + "; it must be false";
  return {};
}

Expected<TokenizerData> read_tokenizer_json(const std::string& path, index rows) {
  const auto json = read_json(path);
  if (!json) return failure(json.error().code(), std::string(json.error().message()));
  return Reader(path, rows).read(*json);
}

}  // namespace inlay::exec
