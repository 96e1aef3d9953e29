// Each stage at its edges, by hand.
#include "cpu_kernels/simd/exp_double.hpp"
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

const std::vector<double> falling = {0.4, 0.3, 0.2, 0.1};

template <class Change> void expect_kept(const Tensor<2>& logits, Change&& change, const std::vector<double>& weights) {
  SamplingSettings settings = sampling_settings();
  change(settings);
  expect_distribution(logits, settings, weights);
}

TEST(sampling, top_k_at_its_edges) {
  const Tensor<2> ties = logits_of({2, 1, 2, 1, 1});
  const double e = std::exp(-1.0);
  expect_kept(ties, [](auto& s) { s.top_k = 1; }, {1, 0, 0, 0, 0});
  expect_kept(ties, [](auto& s) { s.top_k = 2; }, {1, 0, 1, 0, 0});
  expect_kept(ties, [&](auto& s) { s.top_k = 3; }, {1, e, 1, 0, 0});
  expect_kept(ties, [&](auto& s) { s.top_k = 4; }, {1, e, 1, e, 0});
  for (index k : {index{0}, index{5}, index{6}, index{1} << 40})
    expect_kept(ties, [&](auto& s) { s.top_k = k; }, {1, e, 1, e, e});
  expect_kept(logits_of({-infinity, 3, -infinity}), [](auto& s) { s.top_k = 2; }, {0, 1, 0});
}

// The mass counts once it is reached: 2 of 4 equals have 1/2. 0.3f is above 0.3, so that 3 of 10 are not enough.
TEST(sampling, top_p_at_its_edges) {
  const Tensor<2> four = logits_of({1, 1, 1, 1}), ten = logits_of(std::vector<double>(10, -2));
  expect_kept(four, [](auto& s) { s.top_p = 0; }, {1, 0, 0, 0});
  expect_kept(four, [](auto& s) { s.top_p = 0.25f; }, {1, 0, 0, 0});
  expect_kept(four, [](auto& s) { s.top_p = 0.5f; }, {1, 1, 0, 0});
  expect_kept(four, [](auto& s) { s.top_p = std::nextafter(0.5f, 1.0f); }, {1, 1, 1, 0});
  expect_kept(four, [](auto& s) { s.top_p = std::nextafter(0.75f, 1.0f); }, {1, 1, 1, 1});
  expect_kept(ten, [](auto& s) { s.top_p = 0.3f; }, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  expect_kept(ten, [](auto& s) { s.top_p = 0.9f; }, {1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
  expect_kept(logarithms({0.1, 0.3, 0.2, 0.4}), [](auto& s) { s.top_p = 0.69f; }, {0, 0.3, 0, 0.4});
  expect_kept(logarithms({0.1, 0.3, 0.2, 0.4}), [](auto& s) { s.top_p = 0.71f; }, {0, 0.3, 0.2, 0.4});
  // Of what top_k left: 0.4 of 0.7 is 0.571.
  expect_kept(logarithms(falling), [](auto& s) { s.top_k = 2, s.top_p = 0.57f; }, {1, 0, 0, 0});
  // Logits as far apart as floats can be: their difference is beyond f32, and the temperature brings it back.
  const Tensor<2> apart = logits_of({3e38, -3e38, 3e38});
  expect_kept(apart, [](auto& s) { s.top_p = 0.6f; }, {1, 0, 1});
  expect_kept(apart, [](auto& s) { s.top_p = 0.9f, s.temperature = 3e38f; }, {1, 0, 1});
  expect_kept(apart, [](auto& s) { s.top_p = 0.95f, s.temperature = 3e38f; }, {1, std::exp(-2.0), 1});
}

TEST(sampling, min_p_at_its_edges) {
  const Tensor<2> ties = logits_of({1, 3, 3, 0, 3});
  expect_kept(ties, [](auto& s) { s.min_p = 1; }, {0, 1, 1, 0, 1});
  const Tensor<2> two = logits_of({5, 4});  // exp(-1) lies between two neighbouring floats
  const double e = std::exp(-1.0);
  expect_kept(two, [](auto& s) { s.min_p = 0x1.78b562p-2f; }, {1, e});
  expect_kept(two, [](auto& s) { s.min_p = 0x1.78b564p-2f; }, {1, 0});
  // Relative to the likeliest that is left.
  expect_kept(logarithms(falling), [](auto& s) { s.min_p = 0.3f; }, {0.4, 0.3, 0.2, 0});
  expect_kept(logarithms(falling), [](auto& s) { s.min_p = 0.3f, s.typical_p = 0.45f; }, {0, 0.3, 0.2, 0});
}

// Mean 1, deviation sqrt(3) of the whole, not of a sample (2); -infinity is no logit.
TEST(sampling, top_n_sigma_at_its_edges) {
  const double e4 = std::exp(-4.0);
  expect_kept(logits_of({0, 0, 0, 4}), [](auto& s) { s.top_n_sigma = 2.1f; }, {0, 0, 0, 1});
  expect_kept(logits_of({0, 0, 0, 4}), [](auto& s) { s.top_n_sigma = 2.4f; }, {e4, e4, e4, 1});
  expect_kept(logits_of({0, -infinity, 0, 0, 4}), [](auto& s) { s.top_n_sigma = 2.1f; }, {0, 0, 0, 0, 1});
  expect_kept(logits_of({0, -infinity, 0, 0, 4}), [](auto& s) { s.top_n_sigma = 2.4f; }, {e4, 0, e4, e4, 1});
  // At the bound exactly: mean 0, deviation 1. Temperature does not move it, top_k comes behind it.
  const double e2 = std::exp(-2.0);
  expect_kept(logits_of({-1, 1}), [](auto& s) { s.top_n_sigma = 2; }, {e2, 1});
  expect_kept(logits_of({-1, 1}), [](auto& s) { s.top_n_sigma = std::nextafter(2.0f, 0.0f); }, {0, 1});
  expect_kept(logits_of({-1, 1}), [](auto& s) { s.top_n_sigma = 1.9f, s.temperature = 100; }, {0, 1});
  expect_kept(logits_of({0, 0, 0, 4}), [](auto& s) { s.top_n_sigma = 2.1f, s.top_k = 2; }, {0, 0, 0, 1});
}

// 0 is off, as llama.cpp has it, and so is infinity: both give what no filter gives.
TEST(sampling, top_n_sigma_0_is_off) {
  Rng rng(8);
  Tensor<2> logits = model_logits(3, 200, rng);
  for (bool last : {false, true}) {
    const auto probs = [&](float n, auto&& run) {
      SamplingCase c = sampling_case(logits, sampling_settings());
      c.settings.top_n_sigma = n, c.settings.temperature_last = last;
      EXPECT_TRUE(ok(run(c.op())));
      return c.probs;
    };
    const auto off_is_off = [&](auto&& run) {
      expect_equal(probs(0, run), probs(1e6f, run));
      expect_equal(probs(static_cast<float>(infinity), run), probs(1e6f, run));
      const Tensor<2> maxima = probs(1e-6f, run);
      index kept = 0;
      for (index k = 0; k < maxima.size(); ++k) kept += maxima.get(k) > 0;
      EXPECT_EQ(kept, 3);
    };
    Reference reference;
    off_is_off([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { off_is_off(run); });
  }
}

// H = 1.2799; |-ln p - H| = 0.364, 0.076, 0.330, 1.023: the order is 0.3, 0.2, 0.4, 0.1.
TEST(sampling, typical_p_at_its_edges) {
  const Tensor<2> logits = logarithms(falling);
  expect_kept(logits, [](auto& s) { s.typical_p = 0; }, {0, 1, 0, 0});
  expect_kept(logits, [](auto& s) { s.typical_p = 0.29f; }, {0, 1, 0, 0});
  expect_kept(logits, [](auto& s) { s.typical_p = 0.31f; }, {0, 0.3, 0.2, 0});
  expect_kept(logits, [](auto& s) { s.typical_p = 0.49f; }, {0, 0.3, 0.2, 0});
  expect_kept(logits, [](auto& s) { s.typical_p = 0.51f; }, {0.4, 0.3, 0.2, 0});
  expect_kept(logits, [](auto& s) { s.typical_p = 0.91f; }, {0.4, 0.3, 0.2, 0.1});
  // Equals by their id. Their entropy is that of what top_k left.
  expect_kept(logits_of({1, 1, 1, 1}), [](auto& s) { s.typical_p = 0.5f; }, {1, 1, 0, 0});
  expect_kept(logits_of({1, 1, 0, 1, 1}), [](auto& s) { s.top_k = 3, s.typical_p = 0.5f; }, {1, 1, 0, 0, 0});
  // At temperature 1/2 p is 0.533, 0.3, 0.133, 0.033 and H 1.0785: 0.3 (0.125), 0.533 (0.45), 0.133, 0.033.
  expect_kept(logits, [](auto& s) { s.typical_p = 0.8f, s.temperature = 0.5f; }, {16, 9, 0, 0});
}

TEST(sampling, xtc_at_its_edges) {
  const auto xtc = [](float threshold) { return [=](auto& s) { s.xtc_probability = 1, s.xtc_threshold = threshold; }; };
  expect_kept(logits_of({1, 1, 1, 1}), xtc(0.25f), {0, 0, 0, 1});
  expect_kept(logits_of({1, 1, 1, 1}), xtc(std::nextafter(0.25f, 1.0f)), {1, 1, 1, 1});
  expect_kept(logarithms(falling), xtc(0.19f), {0, 0, 0.2, 0.1});
  expect_kept(logarithms(falling), xtc(0.29f), {0, 0.3, 0.2, 0.1});
  expect_kept(logarithms(falling), xtc(0.35f), {0.4, 0.3, 0.2, 0.1});  // one is not enough
  expect_kept(logarithms(falling), xtc(0), {0, 0, 0, 0.1});
  expect_kept(logarithms({0.3, 0.1, 0.3, 0.3}), xtc(0.25f), {0, 0.1, 0, 0.3});
  // Of what is left: 0.2 of 0.9 is 0.222.
  expect_kept(logarithms(falling), [](auto& s) { s.top_k = 3, s.xtc_probability = 1, s.xtc_threshold = 0.22f; },
              {0, 0, 1, 0});
  expect_kept(logarithms(falling), [](auto& s) { s.xtc_probability = 0, s.xtc_threshold = 0.1f; }, {4, 3, 2, 1});
}

TEST(sampling, temperature_before_and_after_the_filters) {
  const Tensor<2> logits = logarithms(falling);
  const auto root = [](double p) { return std::sqrt(p); };
  expect_kept(logits, [](auto& s) { s.temperature = 2; }, {root(4), root(3), root(2), root(1)});
  expect_kept(logits, [](auto& s) { s.temperature = 0.5f; }, {16, 9, 4, 1});
  expect_kept(logits, [](auto& s) { s.temperature = 1e-45f; }, {1, 0, 0, 0});
  expect_kept(logits, [](auto& s) { s.temperature = 3e38f; }, {1, 1, 1, 1});
  // At temperature 2: 0.325, 0.282, 0.230, 0.163; at 1 two tokens have 0.7.
  expect_kept(logits, [](auto& s) { s.temperature = 2, s.top_p = 0.62f; }, {root(4), root(3), root(2), 0});
  expect_kept(logits, [](auto& s) { s.temperature = 2, s.top_p = 0.62f, s.temperature_last = true; },
              {root(4), root(3), 0, 0});
  // Greedy at once, or what the filters left.
  const auto cold = [](bool last) {
    return
        [=](auto& s) { s.temperature = 0, s.xtc_probability = 1, s.xtc_threshold = 0.25f, s.temperature_last = last; };
  };
  expect_kept(logits, cold(false), {1, 0, 0, 0});
  expect_kept(logits, cold(true), {0, 1, 0, 0});
}

// A weight below e^-708 of the largest is none, so that a hotter temperature behind the filters does not raise it.
TEST(sampling, the_least_weight) {
  const auto lowest = static_cast<float>(simd::exp_lowest);
  const Tensor<2> logits = logits_of({lowest, 0, std::nextafter(lowest, -1000.0f)});
  const auto hot = [](auto& s) { s.temperature = 708, s.temperature_last = true; };
  expect_kept(logits, hot, {std::exp(-1.0), 1, 0});
  expect_kept(logits, [](auto& s) { s.xtc_probability = 1, s.xtc_threshold = 0, s.temperature_last = true; },
              {1, 0, 0});
}

TEST(sampling, zeros_of_both_signs_are_equal) {
  expect_kept(logits_of({-1, -0.0, 0, -0.0}), [](auto& s) { s.temperature = 0; }, {0, 1, 0, 0});
  expect_kept(logits_of({-1, 0, -0.0, 0}), [](auto& s) { s.top_k = 2; }, {0, 1, 1, 0});
  expect_kept(logits_of({-1, -0.0, 0, 0}), [](auto& s) { s.min_p = 1; }, {0, 1, 1, 1});
}

}  // namespace
}  // namespace inlay::test
