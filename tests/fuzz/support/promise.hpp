// What a target says where a promise is broken, and what each input may cost.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

#include "tests/support/file_cost.hpp"

namespace inlay::fuzz {

[[noreturn]] inline void broken_promise(std::string_view what) {
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

// A refusal is one printable line that is not too long, says whose fault it is, and names the file, of whose path
// `file` is a part.
inline void expect_clean(const Status& status, std::string_view file = "") {
  constexpr std::size_t longest = 1500;
  const std::string_view message = status.message();
  if (message.empty() || message.size() > longest) broken_promise("a refusal has a message of a few hundred letters");
  for (const char c : message)
    if (c < ' ' || c > '~') broken_promise("a message is printable: " + std::string(message));
  if (message.find(file) == message.npos) broken_promise("a refusal names its file: " + std::string(message));
  if (status.code() != StatusCode::corrupt_data && status.code() != StatusCode::not_found &&
      status.code() != StatusCode::unsupported)
    broken_promise("a refusal says that the file is at fault: " + std::string(message));
}

inline void expect_bounded(std::size_t bytes, std::size_t size) {
  if (bytes > test::file_share * size + test::any_file_costs)
    broken_promise(std::to_string(bytes) + " bytes of memory for " + std::to_string(size) + " of the files");
}

}  // namespace inlay::fuzz
