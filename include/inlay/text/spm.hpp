// How SentencePiece writes text: a space is U+2581, and a byte that no piece holds is "<0x0A>".
#pragma once

#include <string>
#include <string_view>

namespace inlay::exec {

inline constexpr std::string_view spm_space = "\xe2\x96\x81";

std::string spm_escape(std::string_view text);
std::string spm_unescape(std::string_view text);

// The byte that "<0x0A>" stands for, or -1.
int spm_byte(std::string_view token);

}  // namespace inlay::exec
