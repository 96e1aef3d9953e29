// Special tokens, the choice of the algorithm, and decoding.
#include <inlay/text/tokenizer.hpp>

#include <inlay/core/quote.hpp>
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

// A text on its way to its encoder, and which bytes of it were typed (EncodeOptions::typed), if any.
struct Marked {
  std::string text, typed;

  void add(std::string_view more, std::string_view marks) { text += more, typed += marks; }
};

// A run of spaces becomes one, and none at the ends.
Marked squeeze(std::string_view text, std::string_view typed) {
  Marked out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != ' ' || (!out.text.empty() && out.text.back() != ' '))
      out.add(text.substr(i, 1), typed.substr(std::min(i, typed.size()), 1));
  if (!out.text.empty() && out.text.back() == ' ') {
    out.text.pop_back();
    if (!typed.empty()) out.typed.pop_back();
  }
  return out;
}

// The marks of spm_escape(text).
std::string escape_marks(std::string_view text, std::string_view typed) {
  std::string out;
  for (std::size_t i = 0; i < typed.size(); ++i) out.append(text[i] == ' ' ? spm_space.size() : 1, typed[i]);
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
  std::vector<Token> user_defined;
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

  // The same of a text of which bytes were typed, where it is the same for each run of them.
  Expected<Marked> normal_form(std::string_view text, const TypedBytes& typed) const {
    Marked out;
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = std::min(typed.typed.find_first_not_of(typed.typed[begin], begin), text.size());
      auto part = data.nfc ? to_nfc(text.substr(begin, end - begin))
                           : Expected<std::string>(std::string(text.substr(begin, end - begin)));
      if (!part) return failure(std::move(part.error()));
      if (escapes_early()) *part = spm_escape(*part);
      if (begin == 0 && escapes_early() && data.add_space_prefix)
        out.add(spm_space, std::string(spm_space.size(), '\0'));
      out.add(*part, std::string(part->size(), typed.typed[begin]));
    }
    return out;
  }

  Status encode(std::string_view part, bool space, std::vector<Token>& ids, const TypedBytes& typed) const {
    const std::size_t before = ids.size();
    Status status;
    if (bpe) {
      status = space ? bpe->encode(" " + std::string(part), ids) : bpe->encode(part, ids);
    } else if (escapes_early()) {
      status = characters->encode(part, ids);
    } else {
      std::string escaped = spm_escape(part), marks = escape_marks(part, typed.typed);
      if (space && !(data.metaspace && escaped.starts_with(spm_space))) {
        escaped.insert(0, spm_space);
        if (!marks.empty()) marks.insert(0, spm_space.size(), '\0');
      }
      if (spm) return spm->encode(escaped, ids, {marks, typed.guarded});
      status = characters->encode(escaped, ids);
    }
    if (typed.empty() || !status.ok()) return status;
    // What is cut out of other texts never comes out of letters, but for a vocabulary that makes words of it.
    for (std::size_t i = before; i < ids.size(); ++i)
      if (typed.guards(ids[i]))
        return invalid("a message holds " + quote(data.tokens[static_cast<std::size_t>(ids[i])]) +
                       ", which this vocabulary makes of letters too; it must not hold that");
    return status;
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
  Status cut(std::string_view text, bool parse, bool normalized, const TypedBytes& typed, const Token& token,
             const Plain& plain) const {
    const auto part = [&](std::size_t begin, std::size_t end) {
      return plain(text.substr(begin, end - begin), typed.of(begin, end - begin));
    };
    std::size_t done = 0;
    for (const SpecialTokens::Found& special : specials.find(text, parse, normalized, typed)) {
      if (special.begin > done)
        if (Status status = part(done, special.begin); !status) return status;
      token(special.id);
      done = special.end;
    }
    return part(done, text.size());
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
  for (std::size_t i = 0; i < count; ++i)
    if (data.types[i] == Type::user_defined) state->user_defined.push_back(static_cast<Token>(i));
  return Tokenizer(state);
}

Expected<std::vector<Token>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  constexpr std::size_t longest = std::size_t{1} << 29;  // symbols are numbered with 31 bits, and SPM's spaces triple
  if (text.size() > longest)
    return failure(StatusCode::invalid_argument, "a text of " + std::to_string(text.size()) +
                                                     " bytes; it must have at most " + std::to_string(longest));
  if (!options.typed.empty() && options.typed.size() != text.size())
    return failure(invalid("typed has " + std::to_string(options.typed.size()) + " bytes; it must have " +
                           std::to_string(text.size()) + " as the text, or none"));
  const State& s = *state_;
  std::vector<Token> ids;
  if (options.add_special && s.data.add_bos && s.data.bos >= 0) ids.push_back(s.data.bos);
  bool space_wanted = s.data.add_space_prefix;
  const auto take = [&](Token id) {
    ids.push_back(id);
    space_wanted = s.data.add_space_prefix && s.data.space_after_special;
  };
  const auto words = [&](std::string_view part, TypedBytes typed) -> Status {
    Marked squeezed;
    if (s.data.remove_extra_spaces) {
      squeezed = squeeze(part, typed.typed);
      part = squeezed.text, typed.typed = squeezed.typed;
    }
    if (part.empty()) return {};
    return s.encode(part, std::exchange(space_wanted, false), ids, typed);
  };
  const auto normalized = [&](std::string_view part, const TypedBytes& typed) -> Status {
    if (part.empty()) return {};
    if (!s.data.nfc && !s.escapes_early()) return s.cut(part, options.parse_special, true, typed, take, words);
    if (!typed.empty()) {
      auto normal = s.normal_form(part, typed);
      if (!normal) return std::move(normal.error());
      return s.cut(normal->text, options.parse_special, true, {normal->typed, typed.guarded}, take, words);
    }
    auto normal = s.normal_form(part);
    if (!normal) return std::move(normal.error());
    return s.cut(*normal, options.parse_special, true, {}, take, words);
  };
  if (Status status = s.cut(text, options.parse_special, false, {options.typed, options.guarded}, take, normalized);
      !status)
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
Token Tokenizer::unknown() const { return state_->data.unknown; }
Token Tokenizer::padding() const { return state_->data.padding; }
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
std::string Tokenizer::text_of(Token id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const std::string_view token = state_->data.tokens[static_cast<std::size_t>(id)];
  using Type = TokenizerData::TokenType;
  const Type type = state_->data.types[static_cast<std::size_t>(id)];
  if (type != Type::control && type != Type::unknown && type != Type::user_defined) return piece(id);
  return state_->spm ? spm_unescape(token) : std::string(token);
}
std::span<const Token> Tokenizer::user_defined() const { return state_->user_defined; }
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
