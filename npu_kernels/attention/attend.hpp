// From an operator's problem to its program: the template that serves it, the units, the workspace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

// Binds an operator's views; more than once, as a price has a memory of its own.
using BindProblem = std::function<AttentionProblem(GlobalMemory&)>;

// `key`: all that the time depends on.
Program attend(GlobalMemory& memory, const BindProblem& bind, const std::string& key, const Choices& choices);

struct AttentionTemplate {
  bool matrix = true;  // whose rows the core's vector units share; else these alone
  index splits = 1;    // of the keys
};
// Every template, in a few numbers of splits.
std::vector<AttentionTemplate> templates_of(const AttentionProblem& problem, const Device& device, std::uint32_t cores);
// Body-less where it does not serve the problem, or its tiles do not fit.
Program attend_by(GlobalMemory& memory, AttentionProblem problem, const Choices& choices, const AttentionTemplate& by);

// The rules that all three operators name alike; a head of q has `dim` numbers.
template <class Op> AttentionProblem rules_of(GlobalMemory& memory, const Op& op, index dim) {
  AttentionProblem problem;
  problem.scale = static_cast<float>(score_rule(op, dim).scale);
  problem.softcap = op.softcap;
  problem.order = op.bias_order;
  problem.window_left = op.window_left;
  problem.slopes = memory.bind_optional("alibi_slopes", op.alibi_slopes);
  problem.to.sinks = memory.bind_optional("sinks", op.sinks);
  return problem;
}

// [.., row, head, dim] with a group of dims for each piece: all of them are one.
inline NdTensor as_one_piece(const NdTensor& rows) { return with_axis(rows, rows.rank - 1); }

}  // namespace inlay::npu
