// Whether a line whose tensors were moved computes what was recorded, in every order that edges allow: byte for byte,
// and by nothing that the planner of an Arena or the making of Edges used. It is for tests and for who doubts a plan:
// it looks at each byte of what steps write and read.
#pragma once

#include <span>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

// `recorded`: the accesses of the steps before they were moved. Each byte that a step reads is the one that it read
// there, whoever else writes to its place; what was not moved holds in the end what it held there.
Status verify(std::span<const Accesses> recorded, std::span<const GraphStep> placed, const Edges& edges);

}  // namespace inlay::exec
