#include <inlay/exec/device/host_devices.hpp>

#include <chrono>

namespace inlay::exec {

Event SimDevice::submit(const GraphStep& step, double now_us) {
  auto us = time_(step);
  if (!us) return {now_us, std::move(us.error())};
  return {now_us + *us, compute_ ? compute_(step) : Status()};
}

Expected<double> CpuDevice::predict(const GraphStep& step) {
  const auto known = measured_.find({step.name, step.width, step.rows});
  return known == measured_.end() ? 1 : known->second.us / static_cast<double>(known->second.steps);
}

Event CpuDevice::submit(const GraphStep& step, double now_us) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = compute_(step);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  if (status.ok()) {
    Measured& measured = measured_[{step.name, step.width, step.rows}];
    measured.us += us;
    ++measured.steps;
  }
  return {now_us + us, std::move(status)};
}

}  // namespace inlay::exec
