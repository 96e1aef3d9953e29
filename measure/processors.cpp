#include "measure/processors.hpp"

#include <unistd.h>

#if defined(_OPENMP) && defined(__linux__)
#include <omp.h>
#include <sched.h>
#endif

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace inlay::measure {

namespace {

// With OMP_PROC_BIND OpenMP has bound this thread to its place before main(); a program that begins anew would inherit
// that and have one processor.
void unbind() {
#if defined(_OPENMP) && defined(__linux__)
  if (omp_get_num_places() == 0) return;
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> ids(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (int id : ids) CPU_SET(id, &all);
  }
  ::sched_setaffinity(0, sizeof all, &all);
#endif
}

void begin_anew(const char* policy) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(file)), {});  // each ends with a zero
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) arguments.push_back(words.data() + at);
  if (arguments.empty()) return;
  arguments.push_back(nullptr);
  unbind();
  ::setenv("OMP_WAIT_POLICY", policy, 1);
  ::execv("/proc/self/exe", arguments.data());  // returns where it fails: then we measure as we are
}

}  // namespace

void wait_actively() { begin_anew("active"); }
void wait_passively() { begin_anew("passive"); }

}  // namespace inlay::measure
