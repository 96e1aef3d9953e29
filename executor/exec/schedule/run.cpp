#include <inlay/exec/schedule/run.hpp>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace inlay::exec {
namespace {

struct UnderWay {
  index step;
  double begin_us, done_us;
  Status status;
};

class Scheduler {
 public:
  Scheduler(const Run& run, DeviceTimeline& timeline)
      : run_(run), timeline_(timeline), ready_(run.devices.size()), under_way_(run.devices.size()) {}

  Status operator()() {
    if (Status status = prepare(); !status.ok()) return status;
    const Chooser chooser(run_.policy, run_.graph, run_.edges, us_);
    for (double now = 0;;) {
      if (status_.ok())
        for (std::size_t device = 0; device < ready_.size(); ++device) submit(chooser, device, now);
      const auto next = first_done();
      if (!next) return std::move(status_);
      now = under_way_[*next]->done_us;
      end(*next);
    }
  }

 private:
  Status prepare() {
    const std::span<const GraphStep> steps = run_.graph.steps();
    if (run_.placement.size() != steps.size())
      return invalid("placement has " + number(run_.placement.size()) + " entries; it must have " +
                     number(steps.size()) + ", one for each step");
    for (const Device* device : run_.devices) timeline_.devices.emplace_back(device->name());
    for (std::size_t step = 0; step < steps.size(); ++step) {
      const std::size_t device = run_.placement[step];
      if (device >= run_.devices.size())
        return invalid("placement[" + number(step) + "] is " + number(device) + "; it must be below " +
                       number(run_.devices.size()) + ", the devices");
      auto us = run_.devices[device]->predict(steps[step]);
      if (!us) return failed(device, static_cast<index>(step), us.error());
      us_.push_back(*us);
      waits_.push_back(run_.edges.before(static_cast<index>(step)).size());
    }
    for (std::size_t step = 0; step < steps.size(); ++step)
      if (waits_[step] == 0) become_ready(static_cast<index>(step));
    return {};
  }

  void become_ready(index step) {
    ready_[run_.placement[static_cast<std::size_t>(step)]].push_back({step, ready_so_far_++});
  }

  void submit(const Chooser& chooser, std::size_t device, double now) {
    std::vector<Ready>& ready = ready_[device];
    if (under_way_[device] || ready.empty()) return;
    const std::size_t chosen = chooser.choose(ready, run_.devices[device]->kind(), waits_);
    const index step = ready[chosen].step;
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(chosen));
    Event event = run_.devices[device]->submit(run_.graph.steps()[static_cast<std::size_t>(step)], now);
    const double most = run_.devices[device]->limits().watchdog_us;
    if (event.status.ok() && event.done_us - now > most) {
      event.done_us = now + most;
      event.status = internal("is not done after " + std::to_string(most) + " us, the device's watchdog");
    } else if (event.status.ok() && !std::isfinite(event.done_us)) {
      event.done_us = now;
      event.status = internal("is never done, and the device has no watchdog");
    }
    under_way_[device] = {step, now, event.done_us, std::move(event.status)};
  }

  std::optional<std::size_t> first_done() const {
    std::optional<std::size_t> first;
    for (std::size_t device = 0; device < under_way_.size(); ++device)
      if (under_way_[device] && (!first || under_way_[device]->done_us < under_way_[*first]->done_us)) first = device;
    return first;
  }

  void end(std::size_t device) {
    UnderWay ended = std::move(*under_way_[device]);
    under_way_[device].reset();
    if (!ended.status.ok()) {
      if (status_.ok()) status_ = failed(device, ended.step, ended.status);
      return;
    }
    timeline_.spans.push_back({ended.step, device, ended.begin_us, ended.done_us});
    for (const index next : run_.edges.after(ended.step))
      if (--waits_[static_cast<std::size_t>(next)] == 0) become_ready(next);
  }

  Status failed(std::size_t device, index step, const Status& why) const {
    return {why.code(), "device " + std::string(run_.devices[device]->name()) + ", step " + std::to_string(step) +
                            " (" + std::string(run_.graph.steps()[static_cast<std::size_t>(step)].name) +
                            "): " + std::string(why.message())};
  }
  static Status internal(const std::string& message) { return {StatusCode::internal, message}; }
  static std::string number(std::size_t value) { return std::to_string(value); }

  const Run& run_;
  DeviceTimeline& timeline_;
  std::vector<double> us_;
  std::vector<std::size_t> waits_;  // of each step, how many it waits for
  std::vector<std::vector<Ready>> ready_;
  std::vector<std::optional<UnderWay>> under_way_;
  index ready_so_far_ = 0;
  Status status_;
};

}  // namespace

Status run_steps(const Run& run, DeviceTimeline& timeline) {
  timeline = {};
  return Scheduler(run, timeline)();
}

}  // namespace inlay::exec
