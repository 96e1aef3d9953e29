#include "executor/text/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

struct Free {
  void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }
};

}  // namespace

Expected<std::string> to_nfc(std::string_view text) {
  // Below U+0300 (cc 80) every character is in the form already, and none joins the one before it.
  const auto settled = [](char c) { return static_cast<unsigned char>(c) < 0xcc; };
  if (std::all_of(text.begin(), text.end(), settled)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    std::size_t valid = utf8_stretch(text);
    if (valid > 0) {
      utf8proc_uint8_t* memory = nullptr;
      const auto bytes =
          utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(valid),
                       &memory, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
      const std::unique_ptr<utf8proc_uint8_t, Free> owner(memory);
      if (bytes < 0)
        return failure(bytes == UTF8PROC_ERROR_NOMEM ? StatusCode::out_of_memory : StatusCode::internal,
                       std::string("utf8proc: ") + utf8proc_errmsg(bytes));
      out.append(reinterpret_cast<const char*>(memory), static_cast<std::size_t>(bytes));
    }
    if (valid < text.size()) out += text[valid++];
    text.remove_prefix(valid);
  }
  return out;
}

}  // namespace inlay::exec
