// Devices whose numbers a backend of host memory computes.
//
//   SimDevice npu({.name = "npu", .kind = DeviceKind::npu}, computed_by(Reference()), time_of(estimator));
//   CpuDevice cpu({.name = "cpu"}, computed_by(Cpu()));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <inlay/exec/device/device.hpp>
#ifdef INLAY_HAS_NPU
#include <inlay/npu.hpp>
#endif

namespace inlay::exec {

// How a step's numbers come about, and what it takes in microseconds.
using StepCompute = std::function<Status(const GraphStep&)>;
using StepTime = std::function<Expected<double>(const GraphStep&)>;

struct DeviceOptions {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  DeviceLimits limits = {};
};

// By a backend that the steps were recorded for.
template <class Backend> StepCompute computed_by(Backend backend) {
  auto runner = std::make_shared<StepRunner<Backend>>(std::move(backend));
  return [runner](const GraphStep& step) { return runner->run(step); };
}

// Right numbers, and whatever time is said.
class SimDevice final : public Device {
 public:
  // Without `compute` nothing is computed: for timelines of models that are not there.
  SimDevice(DeviceOptions options, StepCompute compute, StepTime time)
      : options_(std::move(options)), compute_(std::move(compute)), time_(std::move(time)) {}

  std::string_view name() const override { return options_.name; }
  DeviceKind kind() const override { return options_.kind; }
  DeviceLimits limits() const override { return options_.limits; }
  Expected<double> predict(const GraphStep& step) override { return time_(step); }
  Event submit(const GraphStep& step, double now_us) override;

 private:
  DeviceOptions options_;
  StepCompute compute_;
  StepTime time_;
};

// The processor that this runs on, by the wall clock. A step is expected to take what one of its operator, width and
// rows took on average so far; one that was never computed, 1 us.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceOptions options, StepCompute compute) : options_(std::move(options)), compute_(std::move(compute)) {}

  std::string_view name() const override { return options_.name; }
  DeviceKind kind() const override { return options_.kind; }
  DeviceLimits limits() const override { return options_.limits; }
  Expected<double> predict(const GraphStep& step) override;
  Event submit(const GraphStep& step, double now_us) override;

 private:
  struct Measured {
    double us = 0;
    index steps = 0;
  };

  DeviceOptions options_;
  StepCompute compute_;
  std::map<std::tuple<std::string_view, index, index>, Measured> measured_;
};

#ifdef INLAY_HAS_NPU
// What a described NPU takes for it, of steps that were recorded for NpuEstimator.
inline StepTime time_of(const NpuEstimator& estimator) {
  return [&estimator](const GraphStep& step) -> Expected<double> {
    const auto* estimates = step.find<EstimatesStep<NpuEstimator>>();
    if (estimates == nullptr)
      return failure(unsupported(std::string(step.name) + " was recorded without NpuEstimator"));
    return estimates->us(estimator, step.op());
  };
}
#endif

}  // namespace inlay::exec
