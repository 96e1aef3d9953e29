// The share of the problem's roofline that an operator reaches, by its price: deterministic, so a floor is a floor.
// Nothing is computed; of a tensor only its address counts, and of a list its entries.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include <inlay/npu.hpp>

namespace inlay::test {

// Addresses that lie apart, behind which there is nothing.
struct Addresses {
  std::uintptr_t next = std::uintptr_t{1} << 40;
  void* place() {
    void* const at = reinterpret_cast<void*>(next);
    next += std::uintptr_t{1} << 36;
    return at;
  }
  template <int N> View<N> view(DType dtype, std::array<index, N> extents) { return View<N>(place(), dtype, extents); }
};

// Prints the row of a table; 0 where there is no price.
double expect_share(const std::string& what, const char* device, const auto& op, double floor,
                    NpuActivations mode = NpuActivations::exact) {
  auto npu = Npu::make({.device = device, .activations = mode});
  EXPECT_TRUE(npu) << npu.error().message();
  if (!npu) return 0;
  const auto cost = price(*npu, op);
  EXPECT_TRUE(cost) << cost.error().message();
  if (!cost) return 0;
  std::printf("| %s | %s | %.0f | %.1f%% | %s |\n", what.c_str(), device, cost->cycles, 100 * cost->problem_share,
              cost->bound.c_str());
  EXPECT_GE(cost->problem_share, floor) << what << " on " << device;
  return cost->problem_share;
}

}  // namespace inlay::test
