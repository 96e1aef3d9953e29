// Writes a vocabulary as SentencePiece's tokenizer.model (executor/model/sentencepiece.cpp lists the fields).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <inlay/text/vocabulary.hpp>

namespace inlay::exec::test {

inline std::string proto_varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
inline std::string proto_number(unsigned field, std::uint64_t value) {
  return proto_varint(field << 3) + proto_varint(value);
}
inline std::string proto_text(unsigned field, std::string_view text) {
  return proto_varint(field << 3 | 2) + proto_varint(text.size()) + std::string(text);
}
inline std::string proto_float(unsigned field, float value) {
  std::string out = proto_varint(field << 3 | 5);
  for (auto bits = std::bit_cast<std::uint32_t>(value); out.size() < 5; bits >>= 8) out += static_cast<char>(bits);
  return out;
}

inline std::string sentencepiece_file(const TokenizerData& t) {
  std::string model;
  for (std::size_t i = 0; i < t.tokens.size(); ++i)
    model += proto_text(1, proto_text(1, t.tokens[i]) + proto_float(2, t.scores[i]) +
                               proto_number(3, static_cast<std::uint64_t>(t.types[i])));
  model += proto_text(2, proto_number(3, 2) + proto_number(35, 1));  // BPE with bytes
  return model + proto_text(3, proto_number(3, t.add_space_prefix) + proto_number(4, t.remove_extra_spaces));
}

}  // namespace inlay::exec::test
