// What a recorded step does, for rooflines and solvers: no operator tells it, its accesses do.
#pragma once

#include <optional>

#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/split/solver.hpp>
#include <inlay/model/model_config.hpp>

namespace inlay::exec {

struct StepWork {
  double flops = 0, bytes = 0;  // operations; bytes that are read and written
};

// Of a step of a prompt of `tokens` tokens, of which `seen` there are until the end of its chunk: attention sees those,
// and only they are read of a cache; of a table only rows are read.
StepWork work_of_prompt(const GraphStep& step, const ModelConfig& config, index seen, index tokens);

// Of a linear's step; nothing for others.
std::optional<LinearShape> linear_of(const GraphStep& step);

// What the step writes, in bytes, of floats.
double written_bytes(const GraphStep& step);

}  // namespace inlay::exec
