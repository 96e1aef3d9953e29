// An operator on a device computes what the reference computes, or is declined with what the device lacks, and has an
// estimate in the first case alone.
//
//   INLAY_FUZZ_RUNS   structs of each operator on each device     INLAY_FUZZ_SEED   of the first one
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include <inlay/npu.hpp>

#include "measure/cases/compare.hpp"
#include "tests/fuzz/operators/every.hpp"
#include "tests/npu/changed_devices.hpp"
#include "tests/support/describe.hpp"

namespace inlay::fuzz {

template <class Op> class ComputesOrDeclines : public ::testing::Test {
 protected:
  static constexpr std::size_t room_bytes = std::size_t{1} << 17;
  struct Counts {
    std::size_t computed = 0, declined = 0;
  };

  // A struct that the device has to compute, or to decline.
  bool counts(const Draw& d, const Op& op) const {
    if (!check(op).ok() || writes_nothing(op)) return false;
    bool small = true;
    for_each_view(op, [&](const auto&, const auto& view) {
      small = small && (view.empty() || (view.size() <= index{1} << 15 && d.owns(view)));
    });
    return small;
  }

  void run_on(const Npu& npu, Draw& d, const Op& op, Counts& counts) {
    const Status supported = supports(npu, op);
    const auto cost = estimate(npu, op);
    if (!supported.ok()) {
      EXPECT_EQ(supported.code(), StatusCode::unsupported) << supported.message();
      EXPECT_FALSE(cost.has_value());
      ++counts.declined;
      return;
    }
    EXPECT_TRUE(cost.has_value() || has_experts(op)) << cost.error().message();  // of which one has an estimate
    d.remember();
    const Status expected = inlay::run(Reference(), op);
    const std::vector<Written> values = written(op);
    d.restore();
    const Status status = inlay::run(npu, op, scratch_.take(workspace_bytes(npu, op), true));
    EXPECT_EQ(status.code(), expected.code()) << status.message();
    EXPECT_EQ(distance(values, written(op), nearness(op)).words, "");
    ++counts.computed;
  }

  // Every third device proves the synchronisation of its runs.
  Counts run_on_all(const std::vector<test::ChangedDevice>& devices) {
    Counts counts;
    std::uint64_t seed = number("INLAY_FUZZ_SEED", 1);
    const std::uint64_t structs = number("INLAY_FUZZ_RUNS", 1);
    int turn = 0;
    for (const test::ChangedDevice& device : devices) {
      const NpuMode mode = turn++ % 3 == 0 ? NpuMode::checked : NpuMode::functional;
      const auto npu = Npu::make({.device = device.text, .mode = mode, .cores = 1});
      if (!npu) continue;  // the loader has refused it: device/refusals.cpp
      SCOPED_TRACE(device.what + (mode == NpuMode::checked ? ", checked" : ""));
      for (std::uint64_t made = 0, last = seed + 1000; made < structs && seed < last; ++seed) {
        Draw d(rooms_, seed);
        Op op{};
        draw(d, op);
        if (!this->counts(d, op)) continue;
        SCOPED_TRACE("INLAY_FUZZ_SEED=" + std::to_string(seed) + ": " + test::describe(op));
        run_on(*npu, d, op, counts);
        ++made;
      }
    }
    return counts;
  }

  Rooms rooms_{160, room_bytes};
  ScratchRoom scratch_;
};

}  // namespace inlay::fuzz
