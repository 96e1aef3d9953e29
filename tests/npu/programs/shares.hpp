// The share of the problem's roofline that an operator reaches, by its estimate: deterministic, so a floor is a floor.
// Nothing is computed; of a tensor only its address counts, and of a list its entries (AbsentTensors).
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <inlay/npu.hpp>

#include "shapes/tensors.hpp"

namespace inlay::test {

// Prints the row of a table; 0 where there is no estimate.
double expect_share_on(const Npu& npu, const std::string& what, const auto& op, double floor) {
  const std::string& device = npu.device_name();
  const auto cost = estimate(npu, op);
  EXPECT_TRUE(cost) << cost.error().message();
  if (!cost) return 0;
  std::printf("| %s | %s | %.0f | %.1f%% | %s |\n", what.c_str(), device.c_str(), cost->cycles,
              100 * cost->problem_share, cost->bound.c_str());
  EXPECT_GE(cost->problem_share, floor) << what << " on " << device;
  return cost->problem_share;
}

double expect_share(const std::string& what, const char* device, const auto& op, double floor,
                    NpuActivations mode = NpuActivations::exact) {
  auto npu = Npu::make({.device = device, .activations = mode});
  EXPECT_TRUE(npu) << npu.error().message();
  return npu ? expect_share_on(*npu, what, op, floor) : 0;
}

// The share of an operator whose weight is packed first: its elements are read.
double expect_packed_share(const std::string& what, const char* device, const auto& op, double floor) {
  auto npu = Npu::make({.device = device});
  EXPECT_TRUE(npu) << npu.error().message();
  if (!npu) return 0;
  const std::size_t bytes = packed_bytes(*npu, op);
  EXPECT_GT(bytes, 0u) << what << " on " << device;
  std::vector<std::byte> memory(bytes + workspace_alignment);
  void* first = memory.data();
  std::size_t room = memory.size();
  std::align(workspace_alignment, bytes, first, room);
  const Status status = pack(*npu, op, {static_cast<std::byte*>(first), bytes});
  EXPECT_TRUE(status.ok()) << status.message();
  return expect_share_on(*npu, what + ", packed", op, floor);
}

}  // namespace inlay::test
