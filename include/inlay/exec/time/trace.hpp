// A timeline for ui.perfetto.dev: one track a device.
#pragma once

#include <string>

#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/time/timeline.hpp>

namespace inlay::exec {

// `what` names the run. A slice is a step: its operator, width and chunk.
std::string trace_json(const std::string& what, const DeviceTimeline& timeline, const StepGraph& graph);
Status write_trace(const std::string& file, const std::string& what, const DeviceTimeline& timeline,
                   const StepGraph& graph);

}  // namespace inlay::exec
