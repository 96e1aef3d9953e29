// An operator that a backend declined.
#pragma once

#include <string>
#include <string_view>

namespace inlay::exec {

// One kind of operator that a backend declined, and who took it over.
struct Fallback {
  std::string_view op, from, to;
  std::string reason;
};

}  // namespace inlay::exec
