// `inlay verify --kernel`: random cases of one operator through somebody's kernel, a line each.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace inlay::tools {

struct KernelOptions {
  std::string library, op, symbol = "inlay_run";
  int cases = 200;
  std::uint64_t seed = 1;  // of the first case; the next has the next
  bool score = false;      // tells how many planted bugs the cases would have told
};

// 0: each case is right, or declined; 1: some are wrong, or all are declined; 2: there is no such kernel or operator.
int verify_kernel(const KernelOptions& options, std::ostream& out);

}  // namespace inlay::tools
