// Linears of int8 whose outliers are operators of their own: the bits of the whole, and the parts beside each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/int8_parts.hpp>
#include <inlay/weights/linear_int8_pack.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// A linear of a random weight, whose x is within -3..3 but for some; a scale that clips those.
class Int8Parts : public ::testing::Test {
 protected:
  static constexpr index tokens = 5, k = 37, n = 29;

  Int8Parts() {
    const auto value = [&](index i) { return static_cast<std::int8_t>((i * 7919 + 13) % 255 - 127); };
    rows_.resize(n * k);
    for (index i = 0; i < n * k; ++i) rows_[static_cast<std::size_t>(i)] = value(i);
    const auto extents = linear_int8::packed_extents(n, k);
    packed_.resize(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]));
    EXPECT_TRUE(ok(pack_linear_int8({rows_.data(), DType::i8, {n, k}}, {packed_.data(), DType::i8, extents},
                                    {sums_.data(), DType::i32, {n}})));
    for (index i = 0; i < tokens * k; ++i)
      x_[static_cast<std::size_t>(i)] = static_cast<float>(i * 37 % 601 - 300) / 100.0F * (i % 17 == 3 ? 90.5F : 1.0F);
    for (index i = 0; i < n; ++i) {
      scales_[static_cast<std::size_t>(i)] = 0.01F + static_cast<float>(i) / 777;
      bias_[static_cast<std::size_t>(i)] = static_cast<float>(i) / 3 - 4;
    }
  }

  LinearInt8<Host> whole(std::vector<float>& y) {
    return {.x = {x_.data(), {tokens, k}},
            .x_scale = {&scale_, {1}},
            .weight = {packed_.data(), DType::i8, linear_int8::packed_extents(n, k)},
            .weight_sum = {sums_.data(), DType::i32, {n}},
            .weight_scale = {scales_.data(), {n}},
            .bias = {bias_.data(), {n}},
            .y = {y.data(), {tokens, n}},
            .shadow_outliers = true};
  }
  static void run_whole(const LinearInt8<Host>& op) {
    StepGraph graph;
    GraphRecorder<Cpu> record(graph);
    record(op);
    StepRunner cpu{Cpu(serial())};
    EXPECT_TRUE(ok(cpu.run(std::as_const(graph).steps()[0])));
  }
  // By the parts, each of which is computed by the backend that has it.
  template <class Multiplies> std::vector<float> parts(Multiplies multiplies, const LinearInt8<Host>& op) {
    StepGraph graph;
    GraphRecorder<Cpu, Reference> record(graph, 3);
    record.enter_layer(2);
    record(op);
    EXPECT_TRUE(ok(record.take_status()));
    EXPECT_TRUE(ok((take_int8_apart<Cpu, Reference>(graph, between_))));
    EXPECT_EQ(graph.size(), 4);
    const Edges edges = Edges::of(graph.accesses());
    for (const index product : {0, 1}) EXPECT_FALSE(edges.precedes(product, 2)) << "outliers wait for products";
    StepRunner cpu{Cpu(serial())};
    StepRunner other{multiplies};
    std::vector<std::string_view> names;
    for (const GraphStep& step : std::as_const(graph).steps()) {
      names.push_back(step.name);
      EXPECT_EQ(step.layer, 2);
      EXPECT_EQ(step.chunk, 3);
      EXPECT_TRUE(ok(step.name == "linear_int8" ? other.run(step) : cpu.run(step)));
    }
    EXPECT_EQ(names, (std::vector<std::string_view>{"quantize", "linear_int8", "outliers_of_int8", "finish_int8"}));
    return y_;
  }

  float scale_ = 3.0F / 127;
  std::vector<std::int8_t> rows_, packed_;
  std::vector<std::int32_t> sums_ = std::vector<std::int32_t>(n);
  std::vector<float> x_ = std::vector<float>(tokens * k), scales_ = std::vector<float>(n),
                     bias_ = std::vector<float>(n), y_ = std::vector<float>(tokens * n);
  HostTensors between_;
};

TEST_F(Int8Parts, parts_have_the_bits_of_the_whole) {
  for (const bool with_bias : {true, false})
    for (const bool one_scale : {true, false}) {
      std::vector<float> expected(tokens * n);
      LinearInt8<Host> op = whole(expected);
      if (!with_bias) op.bias = {};
      if (one_scale) op.weight_scale = op.weight_scale.slice(0, 1, 1);
      run_whole(op);
      std::vector<float> clipped(tokens * n);
      LinearInt8<Host> without = op;
      without.y = {clipped.data(), {tokens, n}};
      without.shadow_outliers = false;
      run_whole(without);
      EXPECT_NE(clipped, expected) << "nothing is clipped";
      op.y = {y_.data(), {tokens, n}};
      EXPECT_EQ(parts(Cpu(serial()), op), expected);
      std::fill(y_.begin(), y_.end(), -1.0F);
      EXPECT_EQ(parts(Reference(), op), expected) << "integers are exact on every backend";
    }
}

TEST_F(Int8Parts, a_row_that_is_not_finite_is_nan) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    x_[k + 5] = bad;
    const std::vector<float> y = parts(Cpu(serial()), whole(y_));
    for (index t = 0; t < tokens; ++t)
      for (index o = 0; o < n; ++o)
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(t * n + o)]), t == 1) << t << " " << o;
  }
}

TEST_F(Int8Parts, what_has_no_parts_stays_whole) {
  LinearInt8<Host> op = whole(y_);
  EXPECT_TRUE(has_int8_parts(op));
  op.shadow_outliers = false;
  EXPECT_FALSE(has_int8_parts(op));
  StepGraph graph;
  GraphRecorder<Cpu, Reference> record(graph);
  record(op);
  ASSERT_TRUE(ok((take_int8_apart<Cpu, Reference>(graph, between_))));
  EXPECT_EQ(graph.size(), 1);
}

}  // namespace
}  // namespace inlay::exec::test
