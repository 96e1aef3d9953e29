// A small model's passes on two devices: the virtual clock's, or both at once.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>

#include "tests/exec/support/recorded_passes.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {

enum : std::size_t { npu_device, cpu_device };

// Passes whose tensors an arena holds, linears on one device, all else on the other.
class Pipeline {
 public:
  explicit Pipeline(const ModelConfig& config = tiny(), const std::string& type = "f32", DType kv_type = DType::f16)
      : passes_(config, type, kv_type), edges_(Edges::in_order(0)) {
    Arena arena(passes_.graph().accesses(), passes_.kept());
    edges_ = Edges::of(arena.apart());
    arena.place(edges_);
    memory_.resize(arena.bytes() + 64);
    void* at = memory_.data();
    std::size_t room = memory_.size();
    arena.move(passes_.graph(), static_cast<std::byte*>(std::align(64, arena.bytes(), at, room)));
    for (const GraphStep& step : steps())
      placement_.push_back(step.name.starts_with("linear") ? npu_device : cpu_device);
  }

  std::span<const GraphStep> steps() { return passes_.graph().steps(); }
  RecordedPasses& passes() { return passes_; }
  const Edges& edges() const { return edges_; }
  std::vector<std::size_t>& placement() { return placement_; }

  // By the virtual clock.
  Status run(Device& npu, Device& cpu, Policy policy) {
    passes_.reset();
    Device* const devices[] = {&npu, &cpu};
    return run_steps(described(devices, policy), timeline);
  }
  // By the wall clock, all devices at once.
  Status run(DeviceThreads& threads, Policy policy) {
    passes_.reset();
    return run_steps(described(threads.devices(), policy), threads, timeline);
  }
  // What each step computes where it is placed, one after the other.
  std::vector<std::byte> expected(const StepCompute& npu, const StepCompute& cpu) {
    passes_.reset();
    for (std::size_t step = 0; step < steps().size(); ++step)
      EXPECT_TRUE(inlay::test::ok((placement_[step] == npu_device ? npu : cpu)(steps()[step])));
    return passes_.contents();
  }

  DeviceTimeline timeline;
  Waiting waiting = Waiting::woken;

 private:
  Run described(std::span<Device* const> devices, Policy policy) {
    return {.graph = passes_.graph(),
            .edges = edges_,
            .devices = devices,
            .placement = placement_,
            .policy = policy,
            .waiting = waiting};
  }

  RecordedPasses passes_;
  Edges edges_;
  std::vector<std::byte> memory_;
  std::vector<std::size_t> placement_;
};

inline StepTime drawn_times(unsigned seed) {
  return [seed](const GraphStep& step) -> Expected<double> {
    return 1 + static_cast<double>((step.width * 7919 + step.rows * 104729 + static_cast<index>(seed) * 31) % 50);
  };
}

}  // namespace inlay::exec::test
