#include "executor/text/spm_encoder.hpp"

#include <inlay/text/spm.hpp>

#include <cmath>
#include <string>
#include <utility>

#include "executor/text/utf8.hpp"

namespace inlay::exec {

using Type = TokenizerData::TokenType;

Expected<SpmEncoder> SpmEncoder::make(const TokenizerData& data, const std::vector<bool>& cuts) {
  SpmEncoder encoder;
  encoder.scores_ = data.scores;
  encoder.types_ = data.types;
  encoder.bytes_.fill(data.unknown);
  std::vector<SpecialTokens::Entry> user_defined;
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    if (std::isnan(data.scores[i]))
      return failure(StatusCode::corrupt_data, "token " + std::to_string(i) + " has the score NaN");
    const auto id = static_cast<std::int32_t>(i);
    const Type type = encoder.types_[i];
    if (type == Type::byte) {
      const int byte = spm_byte(data.tokens[i]);
      if (byte < 0)
        return failure(StatusCode::corrupt_data, "the byte token " + std::to_string(i) + " is not of the form <0x0A>");
      encoder.bytes_[static_cast<std::size_t>(byte)] = id;
    } else if (!data.tokens[i].empty() && !cuts[i]) {  // no letters merge into a control token
      const auto [at, first] = encoder.ids_.emplace(data.tokens[i], id);
      if (!first && encoder.is(at->second, Type::unused)) at->second = id;
      if (type == Type::user_defined) user_defined.push_back({std::string(data.tokens[i]), id, true, false});
    }
  }
  encoder.user_defined_ = SpecialTokens(std::move(user_defined));
  return encoder;
}

void SpmEncoder::add_characters(std::string_view text, std::size_t begin, std::size_t end,
                                std::vector<Symbol>& symbols) const {
  while (begin < end) {
    std::size_t length = utf8_character(text.substr(begin, end - begin));
    if (length == 0) length = 1;  // not UTF-8: by bytes, so that nothing is lost
    add_symbol(begin, length, find(text.substr(begin, length)), symbols);
    begin += length;
  }
}

Status SpmEncoder::encode(std::string_view text, std::vector<std::int32_t>& out, const TypedBytes& typed) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  std::size_t done = 0;
  for (const SpecialTokens::Found& found : user_defined_.find(text, false, false, typed)) {
    add_characters(text, done, found.begin, symbols);
    add_symbol(found.begin, found.end - found.begin, found.id, symbols);
    done = found.end;
  }
  add_characters(text, done, text.size(), symbols);
  if (symbols.empty()) return {};
  symbols.back().next = -1;
  Halves halves;
  merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> Merge {
    if (is(a.token, Type::user_defined) || is(b.token, Type::user_defined)) return {0, TokenizerData::no_token};
    std::int32_t id = find(text.substr(a.begin, a.length + b.length));
    if (!typed.empty() && typed.guards(id)) id = TokenizerData::no_token;
    if (is(id, Type::unused)) halves[id] = a.length;
    return {id < 0 ? 0.0 : static_cast<double>(scores_[static_cast<std::size_t>(id)]), id};
  });
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(i)];
    if (Status status = emit(text.substr(symbol.begin, symbol.length), symbol.token, halves, out); !status)
      return status;
  }
  return {};
}

Status SpmEncoder::emit(std::string_view piece, std::int32_t id, const Halves& halves,
                        std::vector<std::int32_t>& out) const {
  if (id >= 0 && !is(id, Type::unused)) {  // nearly all of them
    out.push_back(id);
    return {};
  }
  std::vector<std::pair<std::string_view, std::int32_t>> parts{{piece, id}};  // the last is the next one
  while (!parts.empty()) {
    const auto [part, token] = parts.back();
    parts.pop_back();
    const bool unused = is(token, Type::unused);
    const auto half = unused ? halves.find(token) : halves.end();
    if (token < 0 || (unused && half == halves.end())) {  // one character without a token, or an unused one
      for (const char c : part) {
        const std::int32_t byte = bytes_[static_cast<unsigned char>(c)];
        if (byte < 0)
          return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " +
                                                std::to_string(static_cast<unsigned char>(c)) +
                                                " and no unknown token"};
        out.push_back(byte);
      }
      continue;
    }
    if (!unused) {
      out.push_back(token);
      continue;
    }
    const std::string_view left = part.substr(0, half->second), right = part.substr(half->second);
    parts.emplace_back(right, find(right));
    parts.emplace_back(left, find(left));
  }
  return {};
}

std::int32_t SpmEncoder::find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? TokenizerData::no_token : at->second;
}

}  // namespace inlay::exec
