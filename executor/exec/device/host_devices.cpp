#include <inlay/exec/device/host_devices.hpp>

#include <chrono>

namespace inlay::exec {

Event SimDevice::submit(const GraphStep& step, double now_us) {
  auto us = time_(step);
  if (!us) return {now_us, std::move(us.error())};
  return {now_us + *us, compute_ ? compute_(step) : Status()};
}

Event CpuDevice::submit(const GraphStep& step, double now_us) {
  const auto begin = std::chrono::steady_clock::now();
  Status status = compute_(step);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  if (status.ok()) measured_.add(step, us);
  return {now_us + us, std::move(status)};
}

}  // namespace inlay::exec
