// Linears of a recorded line that several devices compute together: each part is a step of its own.
//
//   cut_linears(graph, placement, cuts);          // before Edges and Arena, which see steps like any others
//
//   .. norm - linear - swiglu ..    becomes    .. norm -+- tokens 0 .. m, channels 0 .. at -+- swiglu ..
//                                                       +- tokens 0 .. m, channels at .. n -+
//                                                       +- tokens m .. all, all channels ---+
//
// Nothing is summed or joined behind them: each part writes where the whole would have.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

struct PlacedPart {
  LinearPart part;
  std::size_t device;
};

struct LinearCut {
  index step;  // of the graph as it is
  std::vector<PlacedPart> parts;
};

// `cuts` in the order of their steps, each of which has one at most; parts have each element of y once. What is
// refused is named, and nothing is changed.
Status cut_linears(StepGraph& graph, std::vector<std::size_t>& placement, std::span<const LinearCut> cuts);

}  // namespace inlay::exec
