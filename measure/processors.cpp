#include "measure/processors.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace inlay::measure {

void wait_actively() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words((std::istreambuf_iterator<char>(file)), {});  // each ends with a zero
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) arguments.push_back(words.data() + at);
  if (arguments.empty()) return;
  arguments.push_back(nullptr);
  ::setenv("OMP_WAIT_POLICY", "active", 1);
  ::execv("/proc/self/exe", arguments.data());  // returns where it fails: then we measure as we are
}

}  // namespace inlay::measure
