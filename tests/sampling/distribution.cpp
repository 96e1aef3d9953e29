// Frequencies of many draws against the distribution that they were drawn from: FlashInfer's check. Seeds are fixed.
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

constexpr index draws = 200000, batch = 10000;

// How often each token was drawn by rows that all are `one`, a batch a step.
std::vector<double> frequencies(const Tensor<2>& one, const SamplingSettings& settings) {
  const index vocab = one.extents()[1];
  const Cpu cpu;
  std::vector<double> count(static_cast<std::size_t>(vocab));
  Tensor<1> tokens(DType::i32, {batch});
  Sampling<Host> op = settings;
  ConstView<2> rows = one;
  rows.extents[0] = batch;
  rows.strides[0] = 0;
  op.logits = rows, op.tokens = tokens;
  for (op.step = 0; op.step < draws / batch; ++op.step) {
    EXPECT_TRUE(ok(run_with_scratch(cpu, op)));
    for (index r = 0; r < batch; ++r) ++count[static_cast<std::size_t>(tokens.get(r))];
  }
  return count;
}

double chi_square(const std::vector<double>& count, const std::vector<double>& p) {
  double chi = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = draws * p[i];
    if (p[i] == 0)
      EXPECT_EQ(count[i], 0) << "a token that was filtered out was drawn";
    else
      chi += (count[i] - expected) * (count[i] - expected) / expected;
  }
  return chi;
}

// With 50 tokens chi-square has 49 degrees of freedom: above 100 lies one run in 10^5.
TEST(sampling, frequencies_follow_the_distribution) {
  Rng rng(5);
  const Tensor<2> one = model_logits(1, 50, rng);
  for (int filtered : {0, 1}) {
    SamplingCase c = sampling_case(one, sampling_settings());
    if (filtered)
      c.settings.top_k = 12, c.settings.top_p = 0.95f;
    else
      c.settings.temperature = 1.5f;
    const Cpu cpu;
    ASSERT_TRUE(ok(run_with_scratch(cpu, c.op())));
    std::vector<double> p(50);
    for (index i = 0; i < 50; ++i) p[static_cast<std::size_t>(i)] = c.probs.get(i);
    EXPECT_LT(chi_square(frequencies(one, c.settings), p), 100);
  }
}

// More candidates than the draw adds up in one stretch. 299 degrees of freedom: the mean, and six deviations.
TEST(sampling, equal_tokens_are_drawn_equally_often) {
  const index vocab = 300;
  const Tensor<2> one = Tensor<2>(DType::f32, {1, vocab}).fill(4);
  const std::vector<double> p(vocab, 1.0 / vocab);
  EXPECT_LT(chi_square(frequencies(one, sampling_settings()), p), 299 + 6 * std::sqrt(2 * 299.0));
}

// XTC's number is independent of the draw's: with probability 0.3 the first of 0.4 0.4 0.2 is gone, else it stays.
TEST(sampling, xtc_happens_as_often_as_it_should) {
  SamplingSettings settings = sampling_settings();
  settings.xtc_probability = 0.3f, settings.xtc_threshold = 0.3f;
  const std::vector<double> p = {0.7 * 0.4, 0.7 * 0.4 + 0.3 * 2 / 3, 0.7 * 0.2 + 0.3 / 3};
  EXPECT_LT(chi_square(frequencies(logarithms({0.4, 0.4, 0.2}), settings), p), 20);  // one run in 20000
}

}  // namespace
}  // namespace inlay::test
