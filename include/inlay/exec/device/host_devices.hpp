// Devices whose numbers a backend of host memory computes.
//
//   SimDevice npu({.name = "npu", .kind = DeviceKind::npu}, computed_by(Reference()), time_of(estimator));
//   CpuDevice cpu({.name = "cpu"}, computed_by(Cpu()));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <inlay/exec/device/device.hpp>
#include <inlay/exec/time/profile.hpp>
#ifdef INLAY_HAS_NPU
#include <inlay/npu.hpp>
#endif

namespace inlay::exec {

// How a step's numbers come about, and what it takes in microseconds.
using StepCompute = std::function<Status(const GraphStep&)>;
using StepTime = std::function<Expected<double>(const GraphStep&)>;

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
      : Device(std::move(options)), compute_(std::move(compute)), time_(std::move(time)) {}

  Expected<double> predict(const GraphStep& step) override { return time_(step); }
  Event submit(const GraphStep& step, double now_us) override;

 private:
  StepCompute compute_;
  StepTime time_;
};

// The processor that this runs on, by the wall clock. It is a Profile's maker, and expects what that says; of a step
// whose like was never computed, 1 us.
class CpuDevice final : public Device {
 public:
  CpuDevice(DeviceOptions options, StepCompute compute)
      : Device(std::move(options)), compute_(std::move(compute)), measured_(std::string(name())) {}

  Expected<double> predict(const GraphStep& step) override { return measured_.us(step).value_or(1); }
  Event submit(const GraphStep& step, double now_us) override;

  // Of all steps that it has computed.
  const Profile& measured() const { return measured_; }

 private:
  StepCompute compute_;
  Profile measured_;
};

// What a device took that was measured, here or elsewhere. The profile outlives the device.
inline StepTime time_of(const Profile& profile) {
  return [&profile](const GraphStep& step) { return profile.us(step); };
}

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
