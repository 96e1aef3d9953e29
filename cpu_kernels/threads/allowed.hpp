// The processors that this process may use.
#pragma once

#include <vector>

namespace inlay {

// Ascending; empty where the system does not say. Of the calling thread's affinity:
std::vector<int> processors_of_thread();
// The same, or where OpenMP's runtime has bound the thread (OMP_PROC_BIND), those that the runtime was given.
std::vector<int> allowed_processors();

}  // namespace inlay
