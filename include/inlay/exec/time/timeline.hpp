// What several devices did when, and what it could have been.
//
//   npu | linear 3 |..........| linear 9 | linear 14 |      .. a bubble: the device waits
//   cpu |..........| rope 4 | attention 6 |..........|
//
// A makespan cannot be less than the longest path through the edges, nor than what one device has to do: the larger of
// them is the lower bound, for these times and this placement. The critical path is why it was not less: from the step
// that ended last, back to whatever each one waited for, a step that it reads from or the one before it on its device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <inlay/exec/plan/edges.hpp>

namespace inlay::exec {

struct DeviceTimeline {
  struct Span {
    index step;
    std::size_t device;
    double begin_us, end_us;

    double us() const { return end_us - begin_us; }
  };

  std::vector<std::string> devices;  // their names
  std::vector<Span> spans;           // in the order in which they ended

  double makespan_us() const;
  double busy_us(std::size_t device) const;
  // Of that, while another device is busy too.
  double shared_us(std::size_t device) const;
  // Of the makespan, what the device waited.
  double bubble_share(std::size_t device) const;
};

// Of a run that computed all steps.
double lower_bound_us(const DeviceTimeline& timeline, const Edges& edges);
std::vector<index> critical_path(const DeviceTimeline& timeline, const Edges& edges);

}  // namespace inlay::exec
