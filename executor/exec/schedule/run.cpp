#include <inlay/exec/schedule/run.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/exec/schedule/step_queues.hpp"

namespace inlay::exec {
namespace {

// By the virtual clock: it moves on to whatever is done first.
class VirtualRun {
 public:
  VirtualRun(const Run& run, DeviceTimeline& timeline)
      : run_(run), queues_(run, timeline), under_way_(run.devices.size()) {}

  Status operator()() {
    if (Status status = queues_.prepare(); !status.ok()) return status;
    for (double now = 0;;) {
      for (std::size_t device = 0; device < under_way_.size(); ++device) submit(device, now);
      const auto next = first_done();
      if (!next) return queues_.take_status();
      now = under_way_[*next]->done_us;
      queues_.end(*next, now, under_way_[*next]->status);
      under_way_[*next].reset();
    }
  }

 private:
  void submit(std::size_t device, double now) {
    const auto step = queues_.begin(device, now);
    if (!step) return;
    Event event = run_.devices[device]->submit(run_.graph.steps()[static_cast<std::size_t>(*step)], now);
    const double most = run_.devices[device]->limits().watchdog_us;
    if (event.status.ok() && event.done_us - now > most) {
      event.done_us = now + most;
      event.status = overdue(most);
    } else if (event.status.ok() && !std::isfinite(event.done_us)) {
      event.done_us = now;
      event.status = {StatusCode::internal, "is never done, and the device has no watchdog"};
    }
    under_way_[device] = std::move(event);
  }

  std::optional<std::size_t> first_done() const {
    std::optional<std::size_t> first;
    for (std::size_t device = 0; device < under_way_.size(); ++device)
      if (under_way_[device] && (!first || under_way_[device]->done_us < under_way_[*first]->done_us)) first = device;
    return first;
  }

  const Run& run_;
  StepQueues queues_;
  std::vector<std::optional<Event>> under_way_;
};

}  // namespace

Status run_steps(const Run& run, DeviceTimeline& timeline) {
  timeline = {};
  return VirtualRun(run, timeline)();
}

}  // namespace inlay::exec
