// Special tokens, the choice of the algorithm, and decoding.
#include <inlay/text/tokenizer.hpp>

#include <inlay/text/spm.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "executor/text/bpe_encoder.hpp"
#include "executor/text/byte_alphabet.hpp"
#include "executor/text/character_bpe_encoder.hpp"
#include "executor/text/nfc.hpp"
#include "executor/text/special_tokens.hpp"
#include "executor/text/spm_encoder.hpp"
#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

// A run of spaces becomes one, and none at the ends.
std::string squeeze(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

template <class Encoder> Status emplace(std::optional<Encoder>& place, Expected<Encoder> encoder) {
  if (!encoder) return std::move(encoder.error());
  place.emplace(std::move(*encoder));
  return {};
}

std::vector<bool> set_of(std::span<const Token> ids, std::size_t count) {
  std::vector<bool> set(count);
  for (const Token id : ids)
    if (id >= 0 && static_cast<std::size_t>(id) < count) set[static_cast<std::size_t>(id)] = true;
  return set;
}

// By id: whether the text is cut at it before it is cut into pieces.
std::vector<bool> cuts_of(const TokenizerData& data) {
  using Type = TokenizerData::TokenType;
  std::vector<bool> cuts = set_of(data.added, data.types.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const Type type = data.types[i];
    cuts[i] = type == Type::control || type == Type::unknown ||
              (type == Type::user_defined && (cuts[i] || data.kind != TokenizerData::Kind::spm));
  }
  return cuts;
}

// What ends a text: eos, every id that the files name, and the tokens that models end their turns with, for files that
// name one of several. `named` finds one that is no ordinary word. Sorted.
template <class Named> std::vector<Token> ends_of_text(const TokenizerData& data, const Named& named) {
  std::vector<Token> ends = data.ends;
  ends.push_back(data.eos);
  // [UNUSED_TOKEN_145]: InternLM2's; <|eot|> and <|eom|>: Llama 4's; [e~[: MiniMax M2's; <turn|>: Gemma 4's. gpt-oss
  // ends with <|return|> or <|call|>; its <|end|> only ends one of its channels.
  for (const char* name :
       {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>",
        "<|END_OF_TURN_TOKEN|>", "<|return|>", "<|call|>", "<EOT>", "[UNUSED_TOKEN_145]", "<|eot|>", "<|eom|>", "[e~[",
        "<turn|>", "<\uff5cend\u2581of\u2581sentence\uff5c>"})
    ends.push_back(named(name));
  if (named("<|return|>") < 0 || named("<|call|>") < 0) ends.push_back(named("<|end|>"));
  // Among Gemma's words are HTML's tags: there it ends what is struck out.
  if (const Token id = named("</s>");
      id >= 0 && data.types[static_cast<std::size_t>(id)] != TokenizerData::TokenType::user_defined)
    ends.push_back(id);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  std::erase_if(ends, [](Token id) { return id < 0; });
  return ends;
}

}  // namespace

struct Tokenizer::State {
  TokenizerData data;
  std::optional<SpmEncoder> spm;
  std::optional<BpeEncoder> bpe;
  std::optional<CharacterBpeEncoder> characters;
  SpecialTokens specials;
  std::vector<Token> stops;
  std::vector<bool> cuts;        // cuts_of()
  std::vector<bool> normalized;  // data.normalized, by id

  bool is_cut(Token id) const {
    return id >= 0 && static_cast<std::size_t>(id) < cuts.size() && cuts[static_cast<std::size_t>(id)];
  }

  // Whether spaces are U+2581 before special tokens are looked for in normal form.
  bool escapes_early() const { return characters && !data.metaspace; }

  // What normalized special tokens are looked for in, and what they are themselves.
  Expected<std::string> normal_form(std::string_view text) const {
    Expected<std::string> nfc = data.nfc ? to_nfc(text) : Expected<std::string>(std::string(text));
    if (!nfc || !escapes_early()) return nfc;
    return (data.add_space_prefix ? std::string(spm_space) : std::string()) + spm_escape(*nfc);
  }

  Status encode(std::string_view part, bool space, std::vector<Token>& ids) const {
    if (bpe) return space ? bpe->encode(" " + std::string(part), ids) : bpe->encode(part, ids);
    if (escapes_early()) return characters->encode(part, ids);
    std::string escaped = spm_escape(part);
    if (space && !(data.metaspace && escaped.starts_with(spm_space))) escaped.insert(0, spm_space);
    return spm ? spm->encode(escaped, ids) : characters->encode(escaped, ids);
  }

  // A token that letters make.
  Token find_word(std::string_view text) const {
    if (bpe) return bpe->find(to_byte_alphabet(text));
    return spm ? spm->find(spm_escape(text)) : characters->find(spm_escape(text));
  }

  Token find_special(std::string_view text) const {
    if (const Token id = specials.find(text); id >= 0) return id;
    const auto normal = normal_form(text);
    const Token id = normal ? specials.find(*normal) : TokenizerData::no_token;
    return id >= 0 && normalized[static_cast<std::size_t>(id)] ? id : TokenizerData::no_token;
  }

  // Takes the special tokens out of `text`: calls `token` for each and `plain` for what lies between them, in order.
  template <class Token, class Plain>
  Status cut(std::string_view text, bool parse, bool normalized, const Token& token, const Plain& plain) const {
    std::size_t done = 0;
    for (const SpecialTokens::Found& special : specials.find(text, parse, normalized)) {
      if (special.begin > done)
        if (Status status = plain(text.substr(done, special.begin - done)); !status) return status;
      token(special.id);
      done = special.end;
    }
    return plain(text.substr(done));
  }
};

Expected<Tokenizer> Tokenizer::make(const TokenizerData& data) {
  using Type = TokenizerData::TokenType;
  if (!data.problem.empty()) return failure(StatusCode::unsupported, data.problem);
  if (data.kind == TokenizerData::Kind::none) return failure(StatusCode::not_found, "the model file has no tokenizer");
  const std::size_t count = data.tokens.size();
  const bool is_spm = data.kind == TokenizerData::Kind::spm;
  if (count == 0 || count > INT32_MAX || data.types.size() != count || (is_spm && data.scores.size() != count))
    return failure(StatusCode::corrupt_data, "a tokenizer of " + std::to_string(count) + " tokens, " +
                                                 std::to_string(data.types.size()) + " types and " +
                                                 std::to_string(data.scores.size()) + " scores");
  auto state = std::make_shared<State>();
  state->data = data;
  state->cuts = cuts_of(data);
  state->normalized = set_of(data.normalized, count);
  using Kind = TokenizerData::Kind;
  if (Status status = data.kind == Kind::spm   ? emplace(state->spm, SpmEncoder::make(state->data, state->cuts))
                      : data.kind == Kind::bpe ? emplace(state->bpe, BpeEncoder::make(state->data))
                                               : emplace(state->characters, CharacterBpeEncoder::make(state->data));
      !status)
    return failure(std::move(status));
  const auto lstrip = set_of(data.lstrip, count), rstrip = set_of(data.rstrip, count),
             single_word = set_of(data.single_word, count);
  std::vector<SpecialTokens::Entry> specials;
  std::size_t letters = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!state->cuts[i] || data.tokens[i].empty()) continue;
    std::string text = is_spm ? spm_unescape(data.tokens[i]) : std::string(data.tokens[i]);
    if (state->normalized[i]) {
      auto normal = state->normal_form(text);
      if (!normal) return failure(std::move(normal.error()));
      text = std::move(*normal);
    }
    letters += text.size();
    specials.push_back({.text = std::move(text),
                        .id = static_cast<Token>(i),
                        .always = data.types[i] == Type::user_defined,
                        .normalized = state->normalized[i],
                        .lstrip = lstrip[i],
                        .rstrip = rstrip[i],
                        .single_word = single_word[i]});
  }
  if (letters > INT32_MAX)
    return failure(StatusCode::corrupt_data, "special tokens of " + std::to_string(letters) + " bytes together");
  state->specials = SpecialTokens(std::move(specials));
  state->stops = ends_of_text(data, [&](std::string_view name) {
    Token id = state->find_special(name);
    if (id < 0 && is_spm) id = state->spm->find(name);  // a user-defined piece, as Gemma's <end_of_turn>
    const bool is_word =
        !state->is_cut(id) && (id < 0 || data.types[static_cast<std::size_t>(id)] != Type::user_defined);
    return is_word ? TokenizerData::no_token : id;
  });
  return Tokenizer(state);
}

Expected<std::vector<Token>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  constexpr std::size_t longest = std::size_t{1} << 29;  // symbols are numbered with 31 bits, and SPM's spaces triple
  if (text.size() > longest)
    return failure(StatusCode::invalid_argument, "a text of " + std::to_string(text.size()) +
                                                     " bytes; it must have at most " + std::to_string(longest));
  const State& s = *state_;
  std::vector<Token> ids;
  if (options.add_special && s.data.add_bos && s.data.bos >= 0) ids.push_back(s.data.bos);
  bool space_wanted = s.data.add_space_prefix;
  const auto take = [&](Token id) {
    ids.push_back(id);
    space_wanted = s.data.add_space_prefix && s.data.space_after_special;
  };
  const auto words = [&](std::string_view part) -> Status {
    std::string squeezed;
    if (s.data.remove_extra_spaces) part = squeezed = squeeze(part);
    if (part.empty()) return {};
    return s.encode(part, std::exchange(space_wanted, false), ids);
  };
  const auto normalized = [&](std::string_view part) -> Status {
    if (part.empty()) return {};
    if (!s.data.nfc && !s.escapes_early()) return s.cut(part, options.parse_special, true, take, words);
    auto normal = s.normal_form(part);
    if (!normal) return std::move(normal.error());
    return s.cut(*normal, options.parse_special, true, take, words);
  };
  if (Status status = s.cut(text, options.parse_special, false, take, normalized); !status)
    return failure(std::move(status));
  if (options.add_special && s.data.add_eos && s.data.eos >= 0) ids.push_back(s.data.eos);
  return ids;
}

std::string Tokenizer::piece(Token id) const {
  using Type = TokenizerData::TokenType;
  const TokenizerData& data = state_->data;
  if (id < 0 || id >= vocab_size()) return {};
  const std::string_view token = data.tokens[static_cast<std::size_t>(id)];
  switch (data.types[static_cast<std::size_t>(id)]) {
    case Type::control: return {};
    case Type::unused:
      if (!state_->spm) return {};
      break;
    case Type::unknown: return "\xef\xbf\xbd";  // U+FFFD
    case Type::byte: return std::string(1, static_cast<char>(spm_byte(token)));
    case Type::user_defined: return state_->bpe ? std::string(token) : spm_unescape(token);
    case Type::normal: break;
  }
  if (!state_->bpe) return spm_unescape(token);
  std::string bytes;
  return from_byte_alphabet(token, bytes) ? bytes : std::string(token);
}

std::string Tokenizer::decode(std::span<const Token> ids) const {
  StreamDecoder stream(*this, true);
  std::string text;
  for (const Token id : ids) text += stream.push(id);
  return text + stream.finish();
}

index Tokenizer::vocab_size() const { return static_cast<index>(state_->data.tokens.size()); }
Token Tokenizer::bos() const { return state_->data.bos; }
Token Tokenizer::eos() const { return state_->data.eos; }
bool Tokenizer::stops(Token id) const { return std::binary_search(state_->stops.begin(), state_->stops.end(), id); }
Token Tokenizer::find(std::string_view text) const {
  const Token special = state_->find_special(text);
  return special >= 0 ? special : state_->find_word(text);
}
bool Tokenizer::is_special(Token id) const { return state_->is_cut(id); }
bool Tokenizer::adds_space_prefix() const { return state_->data.add_space_prefix; }
bool Tokenizer::space_follows(Token id) const {
  if (!state_->data.add_space_prefix || !state_->data.space_after_special || !state_->is_cut(id)) return false;
  // Before such a token's text the space is there already.
  return !(state_->escapes_early() && state_->normalized[static_cast<std::size_t>(id)]);
}
const std::string& Tokenizer::chat_template() const { return state_->data.chat_template; }

std::string StreamDecoder::push(Token id) {
  std::string piece = tokenizer_.piece(id);
  if (tokenizer_.adds_space_prefix()) {
    if (space_due_ && !piece.empty() && piece[0] == ' ') piece.erase(0, 1);
    space_due_ = tokenizer_.space_follows(id) || (std::exchange(bos_may_come_, false) && id == tokenizer_.bos());
  }
  held_ += piece;
  const std::size_t whole = held_.size() - utf8_unfinished(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string StreamDecoder::finish() { return std::exchange(held_, {}); }

}  // namespace inlay::exec
