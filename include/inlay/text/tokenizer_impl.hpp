// The bodies of tokenizer.hpp: special tokens, the choice of the algorithm, and decoding.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <inlay/text/tokenizer.hpp>
#include <inlay/text/tokenizer_bpe.hpp>
#include <inlay/text/tokenizer_spm.hpp>

namespace inlay::exec {

struct Tokenizer::State {
  // A token that is found in the text as it stands.
  struct Special {
    std::string text;
    Token id;
    bool always;  // user-defined; control tokens only where the caller parses them
  };

  TokenizerData data;
  std::optional<SpmEncoder> spm;
  std::optional<BpeEncoder> bpe;
  std::vector<Special> specials;                              // longest first
  std::array<std::vector<std::uint32_t>, 256> by_first_byte;  // places in `specials`
  std::vector<Token> stops;

  // The special token that `text` starts with.
  const Special* special_at(std::string_view text, bool parse) const {
    for (const std::uint32_t i : by_first_byte[static_cast<unsigned char>(text[0])])
      if ((parse || specials[i].always) && text.substr(0, specials[i].text.size()) == specials[i].text)
        return &specials[i];
    return nullptr;
  }
};

inline Expected<Tokenizer> Tokenizer::make(const TokenizerData& data) {
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
  if (is_spm) {
    auto encoder = SpmEncoder::make(state->data);
    if (!encoder) return failure(std::move(encoder.error()));
    state->spm.emplace(std::move(*encoder));
  } else {
    auto encoder = BpeEncoder::make(state->data);
    if (!encoder) return failure(std::move(encoder.error()));
    state->bpe.emplace(std::move(*encoder));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Type type = data.types[i];
    if ((type != Type::control && type != Type::user_defined && type != Type::unknown) || data.tokens[i].empty())
      continue;
    std::string text = is_spm ? spm_unescape(data.tokens[i]) : std::string(data.tokens[i]);
    state->specials.push_back({std::move(text), static_cast<Token>(i), type == Type::user_defined});
  }
  std::stable_sort(state->specials.begin(), state->specials.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  for (std::uint32_t i = 0; i < state->specials.size(); ++i)
    state->by_first_byte[static_cast<unsigned char>(state->specials[i].text[0])].push_back(i);
  Tokenizer tokenizer(state);
  const auto stop = [&](Token id) {
    if (id != TokenizerData::no_token) state->stops.push_back(id);
  };
  stop(data.eos), stop(data.end_of_turn);
  for (const char* name : {"<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "[UNUSED_TOKEN_145]"})
    for (const State::Special& special : state->specials)
      if (special.text == name) stop(special.id);
  return tokenizer;
}

inline Expected<std::vector<Token>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  constexpr std::size_t longest = std::size_t{1} << 29;  // symbols are numbered with 31 bits, and SPM's spaces triple
  if (text.size() > longest)
    return failure(StatusCode::invalid_argument, "a text of " + std::to_string(text.size()) +
                                                     " bytes; it must have at most " + std::to_string(longest));
  const State& s = *state_;
  std::vector<Token> ids;
  if (options.add_special && s.data.add_bos && s.data.bos >= 0) ids.push_back(s.data.bos);
  bool after_special = true;
  const auto encode_plain = [&](std::string_view part) -> Status {
    if (part.empty()) return {};
    const bool space = s.data.add_space_prefix && after_special;
    after_special = false;
    if (s.spm) return s.spm->encode((space ? std::string(spm_space) : std::string()) + spm_escape(part), ids);
    return s.bpe->encode(space ? " " + std::string(part) : std::string(part), ids);
  };
  std::size_t plain = 0;
  for (std::size_t at = 0; at < text.size();) {
    const State::Special* special = s.special_at(text.substr(at), options.parse_special);
    if (!special) {
      ++at;
      continue;
    }
    if (Status status = encode_plain(text.substr(plain, at - plain)); !status) return failure(std::move(status));
    ids.push_back(special->id);
    after_special = true;
    plain = at += special->text.size();
  }
  if (Status status = encode_plain(text.substr(plain)); !status) return failure(std::move(status));
  if (options.add_special && s.data.add_eos && s.data.eos >= 0) ids.push_back(s.data.eos);
  return ids;
}

inline std::string Tokenizer::piece(Token id) const {
  using Type = TokenizerData::TokenType;
  const TokenizerData& data = state_->data;
  if (id < 0 || id >= vocab_size()) return {};
  const std::string_view token = data.tokens[static_cast<std::size_t>(id)];
  switch (data.types[static_cast<std::size_t>(id)]) {
    case Type::control:
    case Type::unused: return {};
    case Type::unknown: return "\xef\xbf\xbd";  // U+FFFD
    case Type::byte: return std::string(1, static_cast<char>(spm_byte(token)));
    case Type::user_defined: return state_->spm ? spm_unescape(token) : std::string(token);
    case Type::normal: break;
  }
  if (state_->spm) return spm_unescape(token);
  std::string bytes;
  return from_byte_alphabet(token, bytes) ? bytes : std::string(token);
}

inline std::string Tokenizer::decode(std::span<const Token> ids) const {
  StreamDecoder stream(*this, true);
  std::string text;
  for (const Token id : ids) text += stream.push(id);
  return text + stream.finish();
}

inline index Tokenizer::vocab_size() const { return static_cast<index>(state_->data.tokens.size()); }
inline Token Tokenizer::bos() const { return state_->data.bos; }
inline Token Tokenizer::eos() const { return state_->data.eos; }
inline bool Tokenizer::stops(Token id) const {
  return std::find(state_->stops.begin(), state_->stops.end(), id) != state_->stops.end();
}
inline Token Tokenizer::find(std::string_view text) const {
  if (!text.empty())
    if (const State::Special* special = state_->special_at(text, true); special && special->text == text)
      return special->id;
  return state_->spm ? state_->spm->find(spm_escape(text)) : state_->bpe->find(to_byte_alphabet(text));
}
inline bool Tokenizer::is_special(Token id) const {
  using Type = TokenizerData::TokenType;
  if (id < 0 || id >= vocab_size()) return false;
  const Type type = state_->data.types[static_cast<std::size_t>(id)];
  return type == Type::control || type == Type::unknown || type == Type::user_defined;
}
inline bool Tokenizer::adds_space_prefix() const { return state_->data.add_space_prefix; }
inline const std::string& Tokenizer::chat_template() const { return state_->data.chat_template; }

inline std::string StreamDecoder::push(Token id) {
  std::string piece = tokenizer_.piece(id);
  // A prefix space was put at the start of the text and after every special token.
  if (tokenizer_.adds_space_prefix()) {
    if (text_start_ && !piece.empty() && piece[0] == ' ') piece.erase(0, 1);
    text_start_ = tokenizer_.is_special(id);
  }
  held_ += piece;
  const std::size_t whole = held_.size() - utf8_unfinished(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

inline std::string StreamDecoder::finish() { return std::exchange(held_, {}); }

}  // namespace inlay::exec
