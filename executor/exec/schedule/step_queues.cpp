#include "executor/exec/schedule/step_queues.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace inlay::exec {
namespace {

std::string number(std::size_t value) { return std::to_string(value); }

}  // namespace

StepQueues::StepQueues(const Run& run, DeviceTimeline& timeline)
    : run_(run), timeline_(timeline), ready_(run.devices.size()), under_way_(run.devices.size()) {}

Status StepQueues::prepare() {
  const std::span<const GraphStep> steps = run_.graph.steps();
  if (run_.placement.size() != steps.size())
    return invalid("placement has " + number(run_.placement.size()) + " entries; it must have " + number(steps.size()) +
                   ", one for each step");
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
  chooser_.emplace(run_.policy, run_.graph, run_.edges, us_);
  for (std::size_t step = 0; step < steps.size(); ++step)
    if (waits_[step] == 0) become_ready(static_cast<index>(step));
  return {};
}

void StepQueues::become_ready(index step) {
  ready_[run_.placement[static_cast<std::size_t>(step)]].push_back({step, ready_so_far_++});
}

std::optional<index> StepQueues::begin(std::size_t device, double now_us) {
  std::vector<Ready>& ready = ready_[device];
  if (!waits(device)) return std::nullopt;
  const std::size_t chosen = chooser_->choose(ready, run_.devices[device]->kind(), waits_);
  const index step = ready[chosen].step;
  ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(chosen));
  under_way_[device] = {step, now_us};
  return step;
}

void StepQueues::end(std::size_t device, double now_us, const Status& status) {
  const UnderWay ended = *under_way_[device];
  under_way_[device].reset();
  if (!status.ok()) {
    if (status_.ok()) status_ = failed(device, ended.step, status);
    return;
  }
  ++done_;
  timeline_.spans.push_back({ended.step, device, ended.begin_us, now_us});
  for (const index next : run_.edges.after(ended.step))
    if (--waits_[static_cast<std::size_t>(next)] == 0) become_ready(next);
}

double StepQueues::expected_us(double now_us) const {
  double first = INFINITY;
  const auto ends = [&](index step, double begin_us) {
    first = std::min(first, begin_us + us_[static_cast<std::size_t>(step)]);
  };
  for (std::size_t device = 0; device < ready_.size(); ++device)
    if (const auto& at = under_way_[device])
      ends(at->step, at->begin_us);
    else
      for (const Ready& each : ready_[device]) ends(each.step, now_us);
  return first;
}

bool StepQueues::is_over() const {
  return (!status_.ok() || done_ == run_.graph.size()) &&
         std::none_of(under_way_.begin(), under_way_.end(), [](const auto& each) { return each.has_value(); });
}

Status StepQueues::failed(std::size_t device, index step, const Status& why) const {
  return {why.code(), "device " + std::string(run_.devices[device]->name()) + ", step " + std::to_string(step) + " (" +
                          std::string(run_.graph.steps()[static_cast<std::size_t>(step)].name) +
                          "): " + std::string(why.message())};
}

}  // namespace inlay::exec
