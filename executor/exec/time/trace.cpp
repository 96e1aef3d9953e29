#include <inlay/exec/time/trace.hpp>

#include "files/trace_events.hpp"

namespace inlay::exec {
namespace {

files::TraceEvents events_of(const std::string& what, const DeviceTimeline& timeline, const StepGraph& graph) {
  files::TraceEvents events;
  events.name_process(0, what);
  for (std::size_t device = 0; device < timeline.devices.size(); ++device)
    events.name_thread(0, device, timeline.devices[device]);
  for (const DeviceTimeline::Span& span : timeline.spans) {
    const GraphStep& step = graph.steps()[static_cast<std::size_t>(span.step)];
    events.slice(0, span.device,
                 std::string(step.name) + " " + std::to_string(step.width) + ", chunk " + std::to_string(step.chunk),
                 span.begin_us, span.us());
  }
  return events;
}

}  // namespace

std::string trace_json(const std::string& what, const DeviceTimeline& timeline, const StepGraph& graph) {
  return events_of(what, timeline, graph).json();
}

Status write_trace(const std::string& file, const std::string& what, const DeviceTimeline& timeline,
                   const StepGraph& graph) {
  return events_of(what, timeline, graph).write(file);
}

}  // namespace inlay::exec
