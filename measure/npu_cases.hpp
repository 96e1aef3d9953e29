// Operators' programs on shapes for which their times are stated with their stalls: bench/npu prints them,
// tests/npu/programs/targets.cpp holds them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tile_machine/estimate/estimate.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct Case {
  std::string_view op, device;
  // linear (packed f16), linear_int8 (codes to f16): rows, outputs, inputs; incre_flash_attention (f16): sequences,
  // heads, heads of the cache, dim, length
  std::vector<index> size;
  // Least share of the makespan of the problem's bound. Zero where the target is missed; `why` says what stands in its
  // way.
  double floor = 0;
  std::string_view why = "";
};

const std::vector<Case>& cases();
std::string describe(const Case& c);

struct CaseRun {
  Outcome outcome;
  RooflineWork problem;
};

// The case's run. Without `compute` only its log is made: shapes of models would take minutes.
CaseRun run(const Case& c, const Device& device, bool compute = false);
// As `estimate` (tile_machine/estimate) takes it.
EstimateRequest estimated(const Case& c, const Device& device);

}  // namespace inlay::npu
