// One Npu and several threads: a call beside another one is refused and says why, never wrong. Estimates beside it are
// those of an NpuEstimator, whoever else asks.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include <inlay/npu.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "npu_kernels/backend/costs.hpp"
#include "npu_kernels/backend/runtime.hpp"
#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/linear.hpp"
#include "shapes/rms_norm.hpp"

namespace inlay {
namespace {

Npu npu_of(std::string_view device) {
  auto npu = Npu::make({.device = std::string(device)});
  EXPECT_TRUE(npu.has_value());
  return std::move(*npu);
}

// A norm of rows that no other call has, in memory of its own.
class Norm {
 public:
  Norm(index rows, index dim, int seed) : x_(static_cast<std::size_t>(rows * dim)), y_(x_.size()), rows_(rows) {
    for (std::size_t i = 0; i < x_.size(); ++i)
      x_[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed)) % 13) - 6;
    weight_.assign(static_cast<std::size_t>(dim), 1 + static_cast<float>(seed % 3));
    expected_ = y_;
    EXPECT_TRUE(inlay::run(Reference(), op(expected_)).ok());
  }
  RmsNorm<Host> op() { return op(y_); }
  Status run_on(const Npu& npu) {
    std::fill(y_.begin(), y_.end(), untouched);
    return inlay::run(npu, op(), [&](std::size_t bytes) {
      memory_.resize(bytes + workspace_alignment);
      void* first = memory_.data();
      std::size_t room = memory_.size();
      return Workspace(static_cast<std::byte*>(std::align(workspace_alignment, bytes, first, room)), bytes);
    });
  }
  bool is_right() const {
    for (std::size_t i = 0; i < y_.size(); ++i)
      if (!(std::abs(y_[i] - expected_[i]) <= 1e-4f)) return false;
    return true;
  }
  bool is_untouched() const {
    return std::all_of(y_.begin(), y_.end(), [](float y) { return y == untouched; });
  }

 private:
  static constexpr float untouched = 12345;
  RmsNorm<Host> op(std::vector<float>& y) {
    const index dim = static_cast<index>(weight_.size());
    return {.x = ConstView<2>(x_.data(), DType::f32, {rows_, dim}),
            .weight = ConstView<1>(weight_.data(), DType::f32, {dim}),
            .y = View<2>(y.data(), DType::f32, {rows_, dim})};
  }

  std::vector<float> x_, y_, weight_, expected_;
  index rows_;
  std::vector<std::byte> memory_;
};

bool says_why(const Status& status) {
  return status.code() == StatusCode::invalid_argument &&
         status.message().find("another thread is using this Npu") != std::string_view::npos;
}

TEST(npu_threads, a_call_beside_another_is_refused_and_writes_nothing) {
  const Npu npu = npu_of("hexagon-htp-like");
  Norm norm(3, 64, 1);
  ASSERT_TRUE(norm.run_on(npu).ok());
  std::vector<std::byte> memory(1 << 16);
  {
    const auto turn = npu.runtime().turn();
    ASSERT_TRUE(turn);
    std::thread([&] {
      EXPECT_TRUE(says_why(norm.run_on(npu)));
      EXPECT_TRUE(norm.is_untouched());
      EXPECT_TRUE(says_why(supports(npu, norm.op())));
      EXPECT_TRUE(says_why(compute(npu, norm.op(), {})));
      EXPECT_TRUE(norm.is_untouched());
      const auto cost = estimate(npu, norm.op());
      ASSERT_FALSE(cost.has_value());
      EXPECT_TRUE(says_why(cost.error()));
      EXPECT_TRUE(says_why(pack(npu, norm.op(), memory)));
    }).join();
  }
  EXPECT_TRUE(norm.run_on(npu).ok());
  EXPECT_TRUE(norm.is_right());
}

TEST(npu_threads, calls_of_several_threads_are_right_or_refused) {
  const Npu npu = npu_of("ascend-a2-like");
  std::atomic<int> right = 0, refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        Norm norm(1 + (t + i) % 5, 32 + 16 * (i % 7), t + i);  // programs that are made, and such as are kept
        const Status status = norm.run_on(npu);
        if (status.ok()) {
          EXPECT_TRUE(norm.is_right());
          ++right;
        } else {
          EXPECT_TRUE(says_why(status)) << status.message();
          ++refused;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(right, 0);
  EXPECT_EQ(right + refused, 160);
}

// Of the n-th operator of a few.
Expected<NpuEstimate> nth_estimate(const auto& costs, int n) {
  AbsentTensors tensors;
  switch (n % 4) {
    case 0: return estimate(costs, RmsNormShape{.rows = 4 + n, .dim = 512}.make(tensors));
    case 1: return estimate(costs, LinearShape{.m = 1 + n, .n = 256, .k = 512}.make(tensors));
    case 2: return estimate(costs, FlashAttentionShape{.queries = 16 + n}.make(tensors));
    default: return estimate(costs, IncreFlashAttentionShape{.sequences = 1, .length = 2048 + n}.make(tensors));
  }
}

TEST(npu_threads, estimates_of_several_threads_beside_runs_are_those_of_one) {
  constexpr int operators = 12;
  for (const std::string_view device : {"ascend-a2-like", "systolic32"}) {
    const Npu npu = npu_of(device);
    std::vector<double> expected;
    for (int n = 0; n < operators; ++n) expected.push_back(nth_estimate(npu, n)->cycles);
    const auto estimator = NpuEstimator::make({.device = std::string(device)});
    ASSERT_TRUE(estimator.has_value());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2 * operators; ++i) {
          const int n = (i + 3 * t) % operators;
          const auto cost = nth_estimate(*estimator, n);
          ASSERT_TRUE(cost.has_value()) << cost.error().message();
          EXPECT_EQ(cost->cycles, expected[static_cast<std::size_t>(n)]);
        }
      });
    for (int i = 0; i < 60; ++i) {  // on this thread
      Norm norm(1 + i % 7, 48, i);
      EXPECT_TRUE(norm.run_on(npu).ok());
      EXPECT_TRUE(norm.is_right());
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(npu_threads, what_threads_ask_for_at_once_is_timed_once) {
  const auto estimator = NpuEstimator::make({.device = "ascend-a2-like"});
  ASSERT_TRUE(estimator.has_value());
  constexpr int many = 8;
  std::array<double, many> cycles{};
  std::latch all_are_here(many);
  std::vector<std::thread> threads;
  for (double& found : cycles)
    threads.emplace_back([&] {
      AbsentTensors tensors;
      const auto norm = RmsNormShape{.rows = 4096, .dim = 4096}.make(tensors);
      all_are_here.arrive_and_wait();
      const auto cost = estimate(*estimator, norm);
      found = cost ? cost->cycles : 0;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(cycles[0], 0);
  for (const double found : cycles) EXPECT_EQ(found, cycles[0]);
  EXPECT_EQ(estimator->costs().timed(), 1);
}

TEST(npu_threads, an_estimator_counts_the_cores_that_programs_may_use) {
  const auto all = NpuEstimator::make({.device = "ascend-a2-like"});
  const auto one = NpuEstimator::make({.device = "ascend-a2-like", .cores = 1});
  ASSERT_TRUE(all.has_value() && one.has_value());
  AbsentTensors tensors;
  const auto norm = RmsNormShape{.rows = 512, .dim = 1024}.make(tensors);
  EXPECT_GT(estimate(*one, norm)->cycles, 2 * estimate(*all, norm)->cycles);
}

TEST(npu_threads, an_estimator_refuses_what_an_npu_refuses) {
  EXPECT_EQ(NpuEstimator::make({.device = "nobody"}).error().code(), StatusCode::not_found);
  const auto estimator = NpuEstimator::make({.device = "systolic32", .cores = 1});
  ASSERT_TRUE(estimator.has_value());
  const auto wrong = estimate(*estimator, RmsNorm<Host>{});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_EQ(wrong.error().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace inlay
