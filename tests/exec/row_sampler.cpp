// Draws side by side are those of each row alone.
#include <inlay/exec/row_sampler.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <inlay/exec/eager.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

constexpr index vocab = 3001, rows = 40;

// Rows of logits, and the settings of each: greedy, drawn from all, from the likeliest, behind penalties.
struct Rows {
  Rows() : logits(static_cast<std::size_t>(vocab * rows)) {
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = 6 * std::sin(static_cast<float>(i * i % 7919));
    for (index i = 0; i < rows; ++i) {
      Sampling<Host> settings{.logits = {}, .tokens = {}, .temperature = i % 4 == 0 ? 0.f : 0.9f, .seed = i, .step = 3};
      if (i % 4 == 2) settings.top_k = 30, settings.top_p = 0.8f;
      if (i % 4 == 3) {
        settings.repetition_penalty = 1.4f, settings.top_p = 0.9f;
        settings.history = {history, {1, 4}};
      }
      draws.push_back({.settings = settings, .row = rows - 1 - i});
    }
  }
  View<2> all() { return {logits.data(), {rows, vocab}}; }

  std::vector<float> logits;
  std::int32_t history[4] = {1, 1500, 3000, 1500};
  std::vector<Engine::Draw> draws;
};

std::int32_t alone(Rows& rows, const Engine::Draw& draw) {
  std::int32_t token = -1;
  Sampling<Host> op = draw.settings;
  op.logits = rows.all().slice(0, draw.row, 1);
  op.tokens = {&token, DType::i32, {1}};
  Chain chain{Cpu(serial())};
  chain(op);
  EXPECT_TRUE(ok(chain.take_status()));
  return token;
}

TEST(row_sampler, tokens_are_those_of_each_row_alone) {
  for (const int threads : {1, 3, 8}) {
    Rows rows;
    RowSampler sample;
    const Cpu cpu(inlay::test::handed_out(threads));
    for (int again = 0; again < 3; ++again) {
      for (Engine::Draw& draw : rows.draws) draw.token = -1;
      sample(cpu, rows.all(), rows.draws);
      for (const Engine::Draw& draw : rows.draws) {
        ASSERT_TRUE(draw.token.has_value()) << draw.token.error().message();
        EXPECT_EQ(*draw.token, alone(rows, draw)) << "row " << draw.row << ", " << threads << " threads";
      }
    }
  }
}

TEST(row_sampler, a_row_that_fails_fails_alone) {
  Rows rows;
  rows.logits[static_cast<std::size_t>(7 * vocab + 11)] = NAN;
  rows.draws[3].settings.top_p = 2;
  RowSampler sample;
  sample(Cpu(inlay::test::handed_out(3)), rows.all(), rows.draws);
  for (std::size_t i = 0; i < rows.draws.size(); ++i) {
    const Engine::Draw& draw = rows.draws[i];
    ASSERT_EQ(draw.token.has_value(), draw.row != 7 && i != 3) << i;
    if (draw.row == 7) {
      EXPECT_EQ(draw.token.error().code(), StatusCode::corrupt_data);
    } else if (i == 3) {
      EXPECT_EQ(draw.token.error().code(), StatusCode::invalid_argument);
    } else {
      EXPECT_EQ(*draw.token, alone(rows, draw)) << i;
    }
  }
}

TEST(row_sampler, of_no_rows_nothing_is_asked) {
  RowSampler sample;
  sample(Cpu(serial()), {}, {});
}

}  // namespace
}  // namespace inlay::exec::test
