// A line of steps that are placed on a list's devices, and when they run by the virtual clock: each takes what its
// device takes for it, and waits for what another one wrote; devices that are at work at once slow each other.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/schedule/cut_linears.hpp>
#include <inlay/exec/schedule/policies.hpp>
#include <inlay/exec/split/device_list.hpp>
#include <inlay/exec/split/solver.hpp>
#include <inlay/exec/time/timeline.hpp>

namespace inlay::exec {

struct TimedLine {
  StepGraph graph;
  std::vector<std::size_t> device;  // of each step, of the list
  std::vector<double> us;           // that this device takes for it alone
  Edges edges;                      // of the values, not of the buffers that they lie in

  // `kept`: what outlives the line (Arena).
  static TimedLine of(StepGraph graph, std::vector<std::size_t> device, std::vector<double> us,
                      std::span<const ByteRange> kept);
};

// A linear's step that both of two devices compute, as a solver says.
struct SplitStep {
  index step;
  LinearSplit split;
};

// The line with these linears cut, in the order of their steps: between `gpu` and `npu` of the list. Errors as of
// cut_linears.
Expected<TimedLine> cut(const TimedLine& line, const DeviceList& list, std::span<const SplitStep> splits,
                        std::size_t gpu, std::size_t npu, std::span<const ByteRange> kept);

// Errors as of run_steps.
Expected<DeviceTimeline> timeline_of(const TimedLine& line, const DeviceList& list, Policy policy);

}  // namespace inlay::exec
