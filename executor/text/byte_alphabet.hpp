// GPT-2 writes each byte as a printable character: bytes that print stand for themselves, the other
// 68 become U+0100, U+0101, ... in order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace inlay::exec {

// The character of each byte.
const std::array<std::uint16_t, 256>& byte_alphabet();

std::string to_byte_alphabet(std::string_view bytes);

// Appends the bytes that `text` stands for; false where a character is none of the alphabet.
bool from_byte_alphabet(std::string_view text, std::string& out);

}  // namespace inlay::exec
