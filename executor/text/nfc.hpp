// Unicode's normalization form C: e and U+0301 become the one character U+00E9.
#pragma once

#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::exec {

// Bytes that are no UTF-8 stay where they are.
Expected<std::string> to_nfc(std::string_view text);

}  // namespace inlay::exec
