#include "executor/text/spm_encoder.hpp"

#include <inlay/text/spm.hpp>

#include <cmath>
#include <string>

#include "executor/text/merge_symbols.hpp"
#include "executor/text/utf8.hpp"

namespace inlay::exec {

Expected<SpmEncoder> SpmEncoder::make(const TokenizerData& data) {
  using Type = TokenizerData::TokenType;
  SpmEncoder encoder;
  encoder.scores_ = data.scores;
  encoder.bytes_.fill(data.unknown);
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    if (std::isnan(data.scores[i]))
      return failure(StatusCode::corrupt_data, "token " + std::to_string(i) + " has the score NaN");
    const auto id = static_cast<std::int32_t>(i);
    if (data.types[i] == Type::byte) {
      const int byte = spm_byte(data.tokens[i]);
      if (byte < 0)
        return failure(StatusCode::corrupt_data, "the byte token " + std::to_string(i) + " is not of the form <0x0A>");
      encoder.bytes_[static_cast<std::size_t>(byte)] = id;
    } else if (data.types[i] == Type::normal || data.types[i] == Type::user_defined) {
      // Control tokens are not text: no letters merge into them.
      encoder.ids_.emplace(data.tokens[i], id);
    }
  }
  return encoder;
}

Status SpmEncoder::encode(std::string_view text, std::vector<std::int32_t>& out) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    std::size_t length = utf8_character(text.substr(i));
    if (length == 0) length = 1;  // not UTF-8: by bytes, so that nothing is lost
    const auto at = static_cast<std::int32_t>(symbols.size());
    const auto begin = static_cast<std::uint32_t>(i);
    symbols.push_back({at - 1, at + 1, begin, static_cast<std::uint32_t>(length), find(text.substr(i, length))});
    i += length;
  }
  if (symbols.empty()) return {};
  symbols.back().next = -1;
  merge_symbols(symbols, [&](const Symbol& a, const Symbol& b) -> Merge {
    const std::int32_t id = find(text.substr(a.begin, a.length + b.length));
    return {id < 0 ? 0.0 : static_cast<double>(scores_[static_cast<std::size_t>(id)]), id};
  });
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const Symbol& symbol = symbols[static_cast<std::size_t>(i)];
    if (symbol.token >= 0) {
      out.push_back(symbol.token);
      continue;
    }
    for (const char c : text.substr(symbol.begin, symbol.length)) {
      const std::int32_t id = bytes_[static_cast<unsigned char>(c)];
      if (id < 0)
        return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " +
                                              std::to_string(static_cast<unsigned char>(c)) + " and no unknown token"};
      out.push_back(id);
    }
  }
  return {};
}

std::int32_t SpmEncoder::find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? TokenizerData::no_token : at->second;
}

}  // namespace inlay::exec
