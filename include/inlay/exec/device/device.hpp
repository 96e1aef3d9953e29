// A processor that computes recorded steps, one after the other, beside other ones.
//
// A step that is submitted has an event: when it is done, in microseconds of a clock that all devices of a run share,
// and how it went. That clock is virtual: it stands still while a device computes, and moves on by what the device says
// that it took. So what a device is said to take and what it computes are two things, and numbers never depend on time.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

enum class DeviceKind : unsigned char { cpu, gpu, npu };

struct DeviceLimits {
  double watchdog_us = std::numeric_limits<double>::infinity();  // a step that takes longer has failed
};

struct Event {
  double done_us = 0;  // infinite: never
  Status status;
};

struct DeviceOptions {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  DeviceLimits limits = {};
};

class Device {
 public:
  explicit Device(DeviceOptions options) : options_(std::move(options)) {}
  virtual ~Device() = default;

  std::string_view name() const { return options_.name; }
  DeviceKind kind() const { return options_.kind; }
  const DeviceLimits& limits() const { return options_.limits; }

  // Microseconds that the step is expected to take: what orders and placements go by. Unsupported, for what the device
  // does not compute.
  virtual Expected<double> predict(const GraphStep& step) = 0;
  // The device is idle at `now_us`, and all that the step reads is there.
  virtual Event submit(const GraphStep& step, double now_us) = 0;

 private:
  DeviceOptions options_;
};

}  // namespace inlay::exec
