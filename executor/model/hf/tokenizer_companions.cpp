#include "executor/model/hf/tokenizer_companions.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/tokenizer_json.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {
namespace {

// A token is named by its text, or by an object with its text. Empty where it is neither.
std::string_view content_of(const Json& named) {
  return named.is_object() ? named.find("content").text() : named.text();
}

// As it is written; a number that no vocabulary has where it is no id.
std::size_t id_of(std::string_view key) {
  std::size_t id = 0;
  const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
  return read.ec == std::errc{} && std::to_string(id) == key ? id : std::numeric_limits<std::size_t>::max();
}

using Type = TokenizerData::TokenType;

constexpr const char* decoder_key = "added_tokens_decoder";

// Keys of tokenizer_config.json that say nothing of ids: names of special tokens (..._token, ..._tokens) come on top.
// What stands there beside these and is read by nobody would change the ids unseen.
bool is_harmless(std::string_view key) {
  constexpr std::string_view known =
      " _commit_hash _from_auto auto_map backend chat_template clean_up_tokenization_spaces device_map "
      "errors from_slow is_local local_files_only max_length model_input_names model_max_length "
      "model_type name_or_path pad_to_multiple_of pad_token_type_id padding padding_side processor_class "
      "response_schema spaces_between_special_tokens special_tokens_map_file stride tokenizer_class "
      "tokenizer_file truncation truncation_side truncation_strategy trust_remote_code "
      "use_default_system_prompt use_fast verbose vocab_file vocab_size ";
  return key.ends_with("_token") || key.ends_with("_tokens") || key.ends_with("_token_id") ||
         known.find(" " + std::string(key) + " ") != std::string_view::npos;
}

// The files beside a vocabulary: what they add to it, and how text is prepared for it.
class Companions {
 public:
  Companions(const std::filesystem::path& directory, index rows, TokenizerData& data)
      : directory_(directory),
        rows_(static_cast<std::size_t>(rows)),
        t_(data),
        normal_(rows_),
        described_(std::max(rows_, data.tokens.size())),
        cut_(rows_) {
    for (const std::int32_t token : t_.added) cut_[static_cast<std::size_t>(token)] = true;
    for (const std::int32_t token : t_.normalized) normal_[static_cast<std::size_t>(token)] = true;
    for (std::size_t i = 0; i < std::size(sides_); ++i) {
      sides_[i].resize(rows_);
      for (const std::int32_t token : t_.*added_token_sides[i].second)
        sides_[i][static_cast<std::size_t>(token)] = true;
    }
  }

  // In the order in which one may overrule the other.
  Status read() {
    for (const auto& [name, apply] : {std::pair{"special_tokens_map.json", &Companions::special_tokens_map},
                                      std::pair{"added_tokens.json", &Companions::added_tokens},
                                      std::pair{"tokenizer_config.json", &Companions::tokenizer_config}}) {
      path_ = (directory_ / name).string();
      std::error_code error;
      if (!std::filesystem::exists(path_, error)) continue;
      auto document = read_json(path_);
      if (!document) return std::move(document.error());
      if (Status status = (this->*apply)(document->root()); !status || !t_.problem.empty()) return status;
      t_.text.push_back(document->texts());
    }
    if (std::int32_t end = TokenizerData::no_token; take_named(end_, end)) t_.ends.push_back(end);
    list(normal_, t_.normalized);
    list(cut_, t_.added);
    for (std::size_t i = 0; i < std::size(sides_); ++i) list(sides_[i], t_.*added_token_sides[i].second);
    return {};
  }

 private:
  static void list(const std::vector<bool>& set, std::vector<std::int32_t>& ids) {
    ids.clear();
    for (std::size_t id = 0; id < set.size(); ++id)
      if (set[id]) ids.push_back(static_cast<std::int32_t>(id));
  }
  // False where no token has this text; `id` stays as it is then.
  bool take_named(std::string_view text, std::int32_t& id) const {
    const auto at = text.empty() ? t_.tokens.end() : std::find(t_.tokens.begin(), t_.tokens.end(), text);
    if (at == t_.tokens.end()) return false;
    id = static_cast<std::int32_t>(at - t_.tokens.begin());
    return true;
  }
  void refuse(const std::string& problem) { t_ = TokenizerData{.problem = path_ + ": " + problem}; }

  void grow(std::size_t id) {
    if (id < t_.tokens.size()) return;
    t_.tokens.reserve(rows_);  // grown by one again and again it would take twice that
    t_.tokens.resize(id + 1), t_.types.resize(id + 1, Type::unused);
    if (t_.kind == TokenizerData::Kind::spm) t_.scores.resize(id + 1);
  }

  // A SentencePiece model is given its chat tokens in places that it keeps free, under names of its own.
  void put(std::size_t id, std::string_view content, bool special) {
    grow(id);
    if (t_.types[id] == Type::unknown) return;
    const bool is_piece = t_.kind != TokenizerData::Kind::spm && t_.types[id] != Type::unused && !cut_[id];
    t_.tokens[id] = content;
    t_.types[id] = special ? Type::control : Type::user_defined;
    cut_[id] = !special && !is_piece;
  }

  Status special_tokens_map(const Json& json) {
    for (const auto& [key, value] : json.members()) {
      for (const Json each : value.is_array() ? value.elements() : value.alone()) {
        const std::string_view named = content_of(each);
        if (!named.empty()) specials_.push_back(named);
        if (key == "eos_token") end_ = named;
      }
    }
    std::sort(specials_.begin(), specials_.end());
    return {};
  }

  // Of older files: { text: id }. Whoever loads them takes the text for that id wherever it stands.
  Status added_tokens(const Json& json) {
    for (const auto& [content, id] : json.members()) {
      if (!id.is_integer() || id.integer() < 0 || static_cast<std::size_t>(id.integer()) >= rows_)
        return {StatusCode::corrupt_data, path_ + ": the added token " + quote(content) + " has the id " +
                                              quote(written(id)) + "; it must be one below the " +
                                              std::to_string(rows_) + " rows of the embedding"};
      added_.emplace_back(content, static_cast<std::size_t>(id.integer()));
    }
    std::sort(added_.begin(), added_.end());
    for (std::size_t id = 0; id < t_.tokens.size(); ++id) {
      const Added* at = t_.types[id] == Type::unused ? nullptr : find_added(t_.tokens[id]);
      if (at && at->second != id) return disagree(at->first, at->second, "the vocabulary", id);
      if (at) described_[id] = true;
    }
    for (const auto& [content, id] : added_) {
      const bool known = id < t_.tokens.size() && t_.types[id] != Type::unused;
      if (described_[id] && t_.tokens[id] != content) return disagree(content, id, quote(t_.tokens[id]), id);
      if (described_[id] && t_.types[id] != Type::normal) continue;
      if (known && !described_[id] && t_.kind != TokenizerData::Kind::spm)  // its own file has all of its tokens
        return disagree(content, id, quote(t_.tokens[id]), id);
      put(id, content, std::binary_search(specials_.begin(), specials_.end(), content));
      described_[id] = true;
    }
    return {};
  }

  using Added = std::pair<std::string_view, std::size_t>;
  const Added* find_added(std::string_view content) const {
    const auto at = std::lower_bound(added_.begin(), added_.end(), Added(content, 0));
    return at != added_.end() && at->first == content ? &*at : nullptr;
  }

  Status disagree(std::string_view content, std::size_t id, const std::string& other, std::size_t theirs) const {
    return {StatusCode::corrupt_data, path_ + ": the added token " + quote(content) + " has the id " +
                                          std::to_string(id) + "; " + other + " has " + std::to_string(theirs) +
                                          ": the files of the tokenizer disagree"};
  }

  Status tokenizer_config(const Json& json) {
    if (Status status = added_tokens_decoder(json.find(decoder_key)); !status || !t_.problem.empty()) return status;
    take_named(content_of(json.find("bos_token")), t_.bos);
    take_named(content_of(json.find("eos_token")), t_.eos);
    take_named(content_of(json.find("pad_token")), t_.padding);
    const Json chat = json.find("chat_template");  // one, or several by name
    for (const Json each : chat.is_array() ? chat.elements() : chat.alone()) {
      if (each.is_object() && each.find("name") == "default") t_.chat_template = each.find("template").text();
      if (chat.is_string()) t_.chat_template = chat.text();
    }
    const bool spm = t_.kind == TokenizerData::Kind::spm;
    bool space = t_.add_space_prefix, legacy = true, off = false;
    const std::pair<const char*, bool*> obeyed[] = {{"add_bos_token", &t_.add_bos},
                                                    {"add_eos_token", &t_.add_eos},
                                                    {"add_prefix_space", &space},
                                                    {"legacy", &legacy}};  // null: as it was before there was the key
    constexpr const char* must_be_off[] = {"split_special_tokens", "do_lower_case", "keep_accents", "remove_space",
                                           "strip_accents"};
    JsonFields fields(json, path_);
    for (const auto& [key, value] : obeyed) fields.boolean(key, *value);
    for (const char* key : must_be_off)
      if (fields.boolean(key, off) && off) refuse(std::string(key) + " is true; it must be false");
    if (!spm && space != t_.add_space_prefix)
      refuse(std::string("add_prefix_space is ") + (space ? "true" : "false") + "; it must be " +
             (space ? "false" : "true") + " as tokenizer.json has it");
    if (Status status = fields.take_status(); !status || !t_.problem.empty()) return status;
    if (spm) t_.add_space_prefix = space, t_.space_after_special = legacy;
    for (const auto& [key, value] : json.members()) {
      const bool empty = value.is_null() || (value.is_object() && value.size() == 0);  // sp_model_kwargs: {}
      const bool is_read = key == decoder_key ||
                           std::find(std::begin(must_be_off), std::end(must_be_off), key) != std::end(must_be_off) ||
                           std::any_of(std::begin(obeyed), std::end(obeyed),
                                       [name = key](const auto& each) { return each.first == name; });
      if (is_read || empty || is_harmless(key)) continue;
      refuse("the key " + quote(key) + " is " + quote(written(value)) + "; it is unknown, and could change the ids");
      return {};
    }
    return {};
  }

  Status added_tokens_decoder(const Json& added) {
    for (const auto& [key, each] : added.members()) {
      const Json content = each.find("content");
      const auto id = id_of(key);
      if (!content.is_string() || id >= rows_)
        return {StatusCode::corrupt_data,
                path_ + ": the added token " + quote(key) + " has no content or no row in the embedding"};
      if (const std::string problem = added_token_problem(each); !problem.empty()) {
        refuse(problem);
        return {};
      }
      if (const Added* at = find_added(content.text()); at && at->second != id)
        return disagree(content.text(), id, "added_tokens.json", at->second);
      if (described_[id] && t_.tokens[id] != content.text())
        return disagree(content.text(), id, quote(t_.tokens[id]) + " of added_tokens.json", id);
      put(id, content.text(), each.find("special").is_true());
      normal_[id] = t_.kind != TokenizerData::Kind::spm && each.find("normalized").is_true();
      for (std::size_t i = 0; i < std::size(sides_); ++i)
        sides_[i][id] = each.find(added_token_sides[i].first).is_true();
    }
    return {};
  }

  const std::filesystem::path& directory_;
  const std::size_t rows_;
  TokenizerData& t_;
  // By id: looked for in normal form; in added_tokens.json; cut out of a SentencePiece text (TokenizerData::added).
  std::vector<bool> normal_, described_, cut_;
  std::vector<bool> sides_[std::size(added_token_sides)];
  std::vector<std::string_view> specials_;  // of special_tokens_map.json, sorted
  std::string_view end_;
  std::vector<Added> added_;  // of added_tokens.json, sorted
  std::string path_;          // of the file that is read
};

}  // namespace

Status read_companions(const std::filesystem::path& directory, index rows, TokenizerData& data) {
  return Companions(directory, rows, data).read();
}

}  // namespace inlay::exec
