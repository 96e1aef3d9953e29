// Linears of a recorded line that two devices compute together: the first channels are one step, the others another.
//
//   cut_rows(graph, placement, cuts);             // before Edges and Arena, which see two steps like any others
//
//   .. norm - linear - swiglu ..    becomes    .. norm -+- channels 0 .. at -+- swiglu ..
//                                                       +- channels at .. n -+
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

struct RowCut {
  index step;          // of the graph as it is
  index at;            // channels of the first part, a multiple of channel_panel
  std::size_t device;  // of the second part; the first one stays where the step was placed
};

// `cuts` in the order of their steps, each of which has one at most. What is refused is named, and nothing is changed.
Status cut_rows(StepGraph& graph, std::vector<std::size_t>& placement, std::span<const RowCut> cuts);

}  // namespace inlay::exec
