// Two small programs, one of which is faster with a figure of the cost model, and the other without it (the rule of
// version 1). What a device cannot do at all takes forever.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/support/source_dir.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/devices.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

// What each core runs, after its tensors have been made.
using Program = std::function<std::function<void(Core&)>(GlobalMemory&)>;

inline double cycles_of(const Device& device, const Program& program) {
  Machine machine(device, {.cores = 1, .data = false});
  const auto body = program(machine);
  const Outcome outcome = machine.run(body);
  EXPECT_TRUE(outcome.ok()) << outcome.reports[0].message;
  const auto time = time_events(outcome.log, device);
  return time ? to_cycles(time->makespan) : -1;
}

// The cycles of a program that may ask for what the device does not do.
inline double cycles_if_it_runs(const Device& device, const Program& program) {
  Machine machine(device, {.cores = 1, .data = false});
  return machine.run(program(machine)).ok() ? cycles_of(device, program) : std::numeric_limits<double>::infinity();
}

inline Device description(const std::string& name) {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
  if (!device) ADD_FAILURE() << device.error().message();
  return device ? *std::move(device) : Device{};
}

inline VectorCost& cost(Device& device, VectorOp op) { return device.vector.cost[static_cast<std::size_t>(op)]; }

// One core; 64 bytes a cycle from global memory after 100 cycles, whole rows cost nothing more.
inline Device plain_device() {
  Device device = split_device(1);
  device.dram_bytes_per_cycle = device.dram_bytes_per_cycle_core = 64;
  for (Path& path : device.paths) {
    path.half_burst = 0;
    path.latency = 100;
  }
  return device;
}

}  // namespace inlay::npu
