// From an operator's problem to its program: the template that serves it, the units, the workspace.
#pragma once

#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

// The quickest template that fits.
Program attend(GlobalMemory& memory, const AttentionProblem<Host>& problem, const Choices& choices);

struct AttentionTemplate {
  bool matrix = true;  // whose rows the core's vector units share; else these alone
  index splits = 1;    // of the keys
};
// Every template, in a few numbers of splits.
std::vector<AttentionTemplate> templates_of(const AttentionCall& problem, const Device& device, std::uint32_t cores);
// Body-less where it does not serve the problem, or its tiles do not fit.
Program attend_by(GlobalMemory& memory, AttentionCall problem, const Choices& choices, const AttentionTemplate& by);

}  // namespace inlay::npu
