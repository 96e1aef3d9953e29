// The tile programs on the shapes for which their times are stated: bench/machine prints them,
// tests/machine/programs/targets.cpp holds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "npu_kernels/machine/run/machine.hpp"
#include "npu_kernels/price/price.hpp"

namespace inlay::npu {

struct Case {
  std::string_view program, device;
  DType dtype;
  // gemm: m, n, k; decode_attention: sequences, heads, heads of the cache, dim, length, splits
  std::vector<index> size;
  // Least share of the makespan: of the bounding resource, for decode_attention of DMA. Zero
  // where the target is missed; `why` says what stands in its way.
  double floor = 0;
  std::string_view why = "";
};

const std::vector<Case>& cases();
std::string describe(const Case& c);

// What it asks for, whatever the program.
Problem problem_of(const Case& c);
// As `price` (npu_kernels/price) takes it.
PricedProgram priced(const Case& c);

// The case's run. Without `compute` only its tape is made: shapes of models would take minutes.
Outcome run(const Case& c, const Device& device, bool compute = false);

}  // namespace inlay::npu
