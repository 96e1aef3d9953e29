// A chat template cut into tokens, as Jinja cuts it with trim_blocks and lstrip_blocks: the line break behind a {% %}
// or {# #} goes, and so do blanks before one that begins its line; `-` takes all white space on its side, `+` keeps it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec::chat {

// The last byte of the source is never behind 2^32.
inline constexpr std::size_t longest_template = std::size_t{1} << 18;

struct Token {
  enum class Type : unsigned char {
    data,
    output_begin,  // {{
    output_end,
    block_begin,  // {%
    block_end,
    name,
    integer,
    string,
    symbol,
    end
  };
  Type type = Type::end;
  std::uint32_t at = 0;        // where it stands in the source
  std::string_view text = {};  // of the source; of a string: with its quotes
};

// Line breaks as \n, and without the last one.
std::string with_unix_lines(std::string_view source);

// "chat template, line 3, column 7: " of a place in such a source.
std::string place(std::string_view source, std::size_t at);

// They look at `source`.
Expected<std::vector<Token>> tokenize(std::string_view source);

// What a string of the source stands for, with Python's escapes.
Expected<std::string> unquote(std::string_view source, const Token& token);

}  // namespace inlay::exec::chat
