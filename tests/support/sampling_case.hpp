// A case of sampling: tokens and probabilities against the reference's, and answers by hand.
#pragma once

#include <inlay/ops/sampling.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Scalars of the operator; its views are the case's.
using SamplingSettings = Sampling<Host>;

inline SamplingSettings sampling_settings() { return {.logits = {}, .tokens = {}}; }

// Everything that one case needs, so that backends start from the same bytes.
struct SamplingCase {
  Tensor<2> logits, history = {}, probs = {};
  Tensor<1> prompt_lengths = {}, seeds = {}, steps = {}, tokens = {};
  SamplingSettings settings = sampling_settings();

  Sampling<Host> op() {
    Sampling<Host> op = settings;
    op.logits = logits, op.history = history, op.prompt_lengths = prompt_lengths;
    op.seeds = seeds, op.steps = steps, op.tokens = tokens, op.probs = probs;
    return op;
  }
};

inline SamplingCase sampling_case(Tensor<2> logits, const SamplingSettings& settings, bool with_probs = true) {
  const index rows = logits.extents()[0];
  SamplingCase c{.logits = std::move(logits), .tokens = {rows % 2 ? DType::i32 : DType::i64, {rows}}};
  c.settings = settings;
  c.tokens.poison();  // -1 is an error, not a token
  if (with_probs) c.probs = Tensor<2>(DType::f32, c.logits.extents(), {.row_gap = 3, .misaligned = 0}).poison();
  return c;
}

// Logits like a model's: most far below a few.
inline Tensor<2> model_logits(index rows, index vocab, Rng& rng, Layout layout = {}) {
  std::normal_distribution<double> values(0, 3);
  Tensor<2> logits(DType::f32, {rows, vocab}, layout);
  for (index k = 0; k < logits.size(); ++k) logits.set(k, values(rng));
  return logits;
}

// Tokens are the reference's exactly; probabilities to a rounding of f32.
inline void compare_sampling(const SamplingCase& start) {
  against_the_reference(start, [&](const SamplingCase& expected, const SamplingCase& got) {
    expect_equal(got.tokens, expected.tokens);
    EXPECT_TRUE(got.tokens.gaps_untouched());
    EXPECT_TRUE(got.probs.gaps_untouched());
    if (got.probs.present())
      expect_close(got.probs, expected.probs, 2,
                   {.loose = "both round one double to f32: they differ only where it is within 2^-50 of a tie"});
  });
}

inline Tensor<2> logits_of(const std::vector<double>& values) {
  Tensor<2> logits(DType::f32, {1, static_cast<index>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) logits.set(static_cast<index>(i), values[i]);
  return logits;
}

// The logits that give these probabilities.
inline Tensor<2> logarithms(std::vector<double> p) {
  for (double& value : p) value = std::log(value);
  return logits_of(p);
}

// The reference and every backend: the distribution of one row, by hand. Logarithms in f32 are 2^-22 off at most.
inline void expect_distribution(const Tensor<2>& logits, const SamplingSettings& settings,
                                const std::vector<double>& weights) {
  const auto expect = [&](auto&& run) {
    SamplingCase c = sampling_case(logits, settings);
    ASSERT_TRUE(ok(run(c.op())));
    double sum = 0;
    for (double w : weights) sum += w;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double got = c.probs.get(static_cast<index>(i));
      ASSERT_NEAR(got, weights[i] / sum, 1e-6) << "token " << i;
      ASSERT_EQ(got == 0, weights[i] == 0) << "token " << i << " has " << got;
    }
    ASSERT_GT(weights[static_cast<std::size_t>(c.tokens.get(0))], 0) << "a token that was filtered out";
  };
  SamplingCase shown = sampling_case(logits, settings);
  SCOPED_TRACE(describe(shown.op()));
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

INLAY_RUNS_OF(Sampling, extern);

}  // namespace inlay::test
