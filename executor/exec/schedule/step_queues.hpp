// Which steps of a run are ready, under way and done, whatever the clock: it is told when each one ends.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <inlay/exec/schedule/run.hpp>

namespace inlay::exec {

inline Status overdue(double watchdog_us) {
  return {StatusCode::internal, "is not done after " + std::to_string(watchdog_us) + " us, the device's watchdog"};
}

class StepQueues {
 public:
  struct UnderWay {
    index step;
    double begin_us;
  };

  StepQueues(const Run& run, DeviceTimeline& timeline);

  // Refuses what run_steps refuses before anything is computed.
  Status prepare();
  // The step that the device begins now, if it is idle and one is ready; behind a failure none begins.
  std::optional<index> begin(std::size_t device, double now_us);
  // Of the step that the device is at.
  void end(std::size_t device, double now_us, const Status& status);

  // Is the device idle, though a step is ready for it?
  bool waits(std::size_t device) const { return status_.ok() && !under_way_[device] && !ready_[device].empty(); }
  const std::optional<UnderWay>& under_way(std::size_t device) const { return under_way_[device]; }
  // When the first step is expected to end of those that are under way or could begin; infinite, where there are none.
  double expected_us(double now_us) const;
  // Nothing is under way, and nothing will be.
  bool is_over() const;
  // The first failure.
  Status take_status() { return std::move(status_); }

  // In words of a device and a step.
  Status failed(std::size_t device, index step, const Status& why) const;

 private:
  void become_ready(index step);

  const Run& run_;
  DeviceTimeline& timeline_;
  std::vector<double> us_;
  std::optional<Chooser> chooser_;
  std::vector<std::size_t> waits_;  // of each step, how many it waits for
  std::vector<std::vector<Ready>> ready_;
  std::vector<std::optional<UnderWay>> under_way_;
  index ready_so_far_ = 0, done_ = 0;
  Status status_;
};

}  // namespace inlay::exec
