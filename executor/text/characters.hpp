// Which characters are white space, and which belong to words, as Hugging Face's `tokenizers` has it around added
// tokens: \s and \w of Unicode.
#pragma once

#include <cstddef>
#include <string_view>

namespace inlay::exec {

// Bytes of the white space that `text` begins or ends with.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

bool begins_with_word(std::string_view text);
bool ends_with_word(std::string_view text);

}  // namespace inlay::exec
