// What the tests of programs share: the devices, and a run that must be clean.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/devices.hpp"

namespace inlay::npu {

inline constexpr Policy policies[] = {Policy::issue_order, Policy::late_dma, Policy::early_dma, Policy::random};

// Those of devices/, and the three made by hand.
inline std::vector<Device> all_devices() {
  std::vector<Device> devices = {split_device(), twin_device(), flat_device()};
  for (const char* name : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
    if (device)
      devices.push_back(*std::move(device));
    else
      ADD_FAILURE() << name << ": " << device.error().message();
  }
  return devices;
}

inline void expect_no_reports(const std::vector<Report>& reports, const std::string& where) {
  for (const Report& report : reports) ADD_FAILURE() << where << ": " << name(report.kind) << ": " << report.message;
}

// Neither the run nor the checker finds anything.
inline void expect_clean(Machine& machine, const std::function<void(Core&)>& program, Launch launch = {}) {
  const Outcome outcome = machine.run(program, launch);
  expect_no_reports(outcome.reports, machine.device().name);
  expect_no_reports(check(outcome.log, machine.device()), machine.device().name + ", checker");
}

template <class T> std::vector<T> random_values(std::size_t count, float low, float high, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    const float unit = static_cast<float>(random()) / 4294967296.0f;
    value = static_cast<T>(low + unit * (high - low));
  }
  return values;
}

}  // namespace inlay::npu
