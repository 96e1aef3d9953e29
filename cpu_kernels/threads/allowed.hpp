// The processors that this process may use.
#pragma once

#include <vector>

namespace inlay {

// By its affinity, ascending; empty where the system does not say.
std::vector<int> allowed_processors();

}  // namespace inlay
