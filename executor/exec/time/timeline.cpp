#include <inlay/exec/time/timeline.hpp>

#include <algorithm>
#include <utility>

namespace inlay::exec {
namespace {

using Span = DeviceTimeline::Span;

// Of each step.
std::vector<const Span*> by_step(const DeviceTimeline& timeline, const Edges& edges) {
  std::vector<const Span*> spans(static_cast<std::size_t>(edges.steps()));
  for (const Span& span : timeline.spans) spans[static_cast<std::size_t>(span.step)] = &span;
  return spans;
}

}  // namespace

double DeviceTimeline::makespan_us() const {
  double end = 0;
  for (const Span& span : spans) end = std::max(end, span.end_us);
  return end;
}

double DeviceTimeline::busy_us(std::size_t device) const {
  double sum = 0;
  for (const Span& span : spans)
    if (span.device == device) sum += span.us();
  return sum;
}

double DeviceTimeline::shared_us(std::size_t device) const {
  struct Change {
    double us;
    bool of_device;
    int by;  // devices that are busy
  };
  std::vector<Change> changes;
  for (const Span& span : spans)
    for (const auto& [us, by] : {std::pair(span.begin_us, 1), std::pair(span.end_us, -1)})
      changes.push_back({us, span.device == device, by});
  std::ranges::sort(changes, {}, &Change::us);
  double shared = 0, since = 0;
  int busy = 0, others = 0;
  for (const Change& change : changes) {
    if (busy > 0 && others > 0) shared += change.us - since;
    since = change.us;
    (change.of_device ? busy : others) += change.by;
  }
  return shared;
}

double DeviceTimeline::bubble_share(std::size_t device) const {
  const double all = makespan_us();
  return all > 0 ? 1 - busy_us(device) / all : 0;
}

double lower_bound_us(const DeviceTimeline& timeline, const Edges& edges) {
  const auto spans = by_step(timeline, edges);
  std::vector<double> until(spans.size());
  double bound = 0;
  for (index step = 0; step < edges.steps(); ++step) {
    const auto at = static_cast<std::size_t>(step);
    for (const index from : edges.before(step)) until[at] = std::max(until[at], until[static_cast<std::size_t>(from)]);
    until[at] += spans[at]->us();
    bound = std::max(bound, until[at]);
  }
  for (std::size_t device = 0; device < timeline.devices.size(); ++device)
    bound = std::max(bound, timeline.busy_us(device));
  return bound;
}

std::vector<index> critical_path(const DeviceTimeline& timeline, const Edges& edges) {
  const auto spans = by_step(timeline, edges);
  std::vector<index> path;
  if (timeline.spans.empty()) return path;
  for (const Span* span = &timeline.spans.back(); span != nullptr;) {
    path.push_back(span->step);
    const Span* latest = nullptr;
    const auto consider = [&](const Span& other) {
      if (latest == nullptr || other.end_us > latest->end_us) latest = &other;
    };
    for (const index from : edges.before(span->step)) consider(*spans[static_cast<std::size_t>(from)]);
    for (const Span& other : timeline.spans)
      if (&other != span && other.device == span->device && other.end_us <= span->begin_us) consider(other);
    span = latest;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace inlay::exec
