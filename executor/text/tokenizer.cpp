// Special tokens, the choice of the algorithm, and decoding.
#include <inlay/text/tokenizer.hpp>

#include <inlay/text/spm.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "executor/text/bpe_encoder.hpp"
#include "executor/text/byte_alphabet.hpp"
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

// By id: whether the text is cut at it before it is cut into pieces.
std::vector<bool> cuts_of(const TokenizerData& data) {
  using Type = TokenizerData::TokenType;
  std::vector<bool> cuts(data.types.size());
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const Type type = data.types[i];
    cuts[i] = type == Type::control || type == Type::unknown ||
              (type == Type::user_defined && data.kind != TokenizerData::Kind::spm);
  }
  for (const Token id : data.added)
    if (id >= 0 && static_cast<std::size_t>(id) < cuts.size() &&
        data.types[static_cast<std::size_t>(id)] == Type::user_defined)
      cuts[static_cast<std::size_t>(id)] = true;
  return cuts;
}

// What ends a text: eos, every id that the files name, and the tokens that models end their turns with, for files that
// name one of several. `named` finds one that is no ordinary word. Sorted.
template <class Named> std::vector<Token> ends_of_text(const TokenizerData& data, const Named& named) {
  std::vector<Token> ends = data.ends;
  ends.push_back(data.eos);
  // [UNUSED_TOKEN_145]: InternLM2's. gpt-oss ends with <|return|> or <|call|>; its <|end|> only ends one of its
  // channels.
  for (const char* name :
       {"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>",
        "<|END_OF_TURN_TOKEN|>", "<|return|>", "<|call|>", "<EOT>", "</s>", "[UNUSED_TOKEN_145]"})
    ends.push_back(named(name));
  if (named("<|return|>") < 0 || named("<|call|>") < 0) ends.push_back(named("<|end|>"));
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
  SpecialTokens specials;
  std::vector<Token> stops;
  std::vector<bool> cuts;  // cuts_of()

  bool is_cut(Token id) const {
    return id >= 0 && static_cast<std::size_t>(id) < cuts.size() && cuts[static_cast<std::size_t>(id)];
  }

  // Takes the special tokens out of `text`: calls `token` for each and `plain` for what lies between them, in order.
  template <class Token, class Plain>
  Status cut(std::string_view text, bool parse, bool normalized, const Token& token, const Plain& plain) const {
    std::size_t done = 0;
    for (const SpecialTokens::Found& special : specials.find(text, parse, normalized)) {
      if (Status status = plain(text.substr(done, special.begin - done)); !status) return status;
      token(special.id);
      done = special.begin + special.length;
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
  if (Status status = is_spm ? emplace(state->spm, SpmEncoder::make(state->data, state->cuts))
                             : emplace(state->bpe, BpeEncoder::make(state->data));
      !status)
    return failure(std::move(status));
  std::vector<bool> normal(count);  // looked for in normal form
  for (const Token id : data.normalized)
    if (id >= 0 && static_cast<std::size_t>(id) < count) normal[static_cast<std::size_t>(id)] = true;
  std::vector<SpecialTokens::Entry> specials;
  std::size_t letters = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (!state->cuts[i] || data.tokens[i].empty()) continue;
    const bool normalized = normal[i];
    std::string text = is_spm ? spm_unescape(data.tokens[i]) : std::string(data.tokens[i]);
    if (normalized && data.nfc) {
      auto nfc = to_nfc(text);
      if (!nfc) return failure(std::move(nfc.error()));
      text = std::move(*nfc);
    }
    letters += text.size();
    specials.push_back({std::move(text), static_cast<Token>(i), data.types[i] == Type::user_defined, normalized});
  }
  if (letters > INT32_MAX)
    return failure(StatusCode::corrupt_data, "special tokens of " + std::to_string(letters) + " bytes together");
  state->specials = SpecialTokens(std::move(specials));
  state->stops = ends_of_text(data, [&](std::string_view name) {
    Token id = state->specials.find(name);
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
    const bool space = std::exchange(space_wanted, false);
    if (s.spm) return s.spm->encode((space ? std::string(spm_space) : std::string()) + spm_escape(part), ids);
    return space ? s.bpe->encode(" " + std::string(part), ids) : s.bpe->encode(part, ids);
  };
  const auto normalized = [&](std::string_view part) -> Status {
    if (!s.data.nfc) return s.cut(part, options.parse_special, true, take, words);
    auto nfc = to_nfc(part);
    if (!nfc) return std::move(nfc.error());
    return s.cut(*nfc, options.parse_special, true, take, words);
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
    case Type::user_defined: return state_->spm ? spm_unescape(token) : std::string(token);
    case Type::normal: break;
  }
  if (state_->spm) return spm_unescape(token);
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
  if (const Token id = state_->specials.find(text); id >= 0) return id;
  return state_->spm ? state_->spm->find(spm_escape(text)) : state_->bpe->find(to_byte_alphabet(text));
}
bool Tokenizer::is_special(Token id) const { return state_->is_cut(id); }
bool Tokenizer::adds_space_prefix() const { return state_->data.add_space_prefix; }
bool Tokenizer::space_follows(Token id) const {
  return state_->data.add_space_prefix && state_->data.space_after_special && state_->is_cut(id);
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
