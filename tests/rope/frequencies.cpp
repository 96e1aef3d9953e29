// What the host computes once a model: frequencies and their scalings, and the axes of M-RoPE.
#include <inlay/weights/rope_frequencies.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace inlay::test {
namespace {

TEST(rope, frequencies_follow_their_rules) {
  const double tau = 2 * 3.14159265358979323846;
  const RopeParameters plain{.rotary_dim = 128, .theta = 500000};
  const auto base = [&](index i) { return std::pow(500000.0, -2.0 * i / 128); };
  const auto close = [](double got, double expected) { return std::abs(got - expected) <= 1e-13 * expected; };

  RopeParameters p = plain;
  const RopeFrequencies none = *rope_frequencies(p);
  p.scaling = RopeScaling::linear, p.factor = 4;
  const RopeFrequencies linear = *rope_frequencies(p);
  p.scaling = RopeScaling::ntk;
  const RopeFrequencies ntk = *rope_frequencies(p);
  for (index i = 0; i < 64; ++i) {
    EXPECT_TRUE(close(none[i], base(i)));
    EXPECT_TRUE(close(linear[i], base(i) / 4));
  }
  // NTK keeps the fastest pair and stretches the slowest by the factor.
  EXPECT_TRUE(close(ntk[0], 1));
  EXPECT_TRUE(close(ntk[63], base(63) / 4));

  // Llama 3.1: 8192 positions, factor 8: waves below 2048 stay, above 8192 are divided.
  p = plain;
  p.scaling = RopeScaling::llama3, p.factor = 8, p.original_context = 8192;
  const RopeFrequencies llama = *rope_frequencies(p);
  for (index i = 0; i < 64; ++i) {
    const double wave = tau / base(i);
    const double smooth = (8192 / wave - 1) / 3;
    const double expected = wave < 2048 ? base(i) : wave > 8192 ? base(i) / 8 : base(i) * ((1 - smooth) / 8 + smooth);
    EXPECT_TRUE(close(llama[i], expected)) << i;
  }
  EXPECT_EQ(llama.magnitude, 1);

  // YaRN with Qwen2.5's numbers: theta 10^6, 32768 -> 131072. The ramp runs from pair 23 to pair 40.
  p = {.rotary_dim = 128, .theta = 1e6, .scaling = RopeScaling::yarn, .factor = 4, .original_context = 32768};
  const RopeFrequencies yarn = *rope_frequencies(p);
  const double low = std::floor(128 * std::log(32768 / (32 * tau)) / (2 * std::log(1e6)));
  const double high = std::ceil(128 * std::log(32768 / tau) / (2 * std::log(1e6)));
  EXPECT_EQ(low, 23);
  EXPECT_EQ(high, 40);
  for (index i = 0; i < 64; ++i) {
    const double f = std::pow(1e6, -2.0 * i / 128), ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    EXPECT_TRUE(close(yarn[i], f * (1 - ramp) + f / 4 * ramp)) << i;
  }
  EXPECT_EQ(yarn.magnitude, static_cast<float>(0.1 * std::log(4.0) + 1));
  p.mscale = 0.707, p.mscale_all_dim = 0.707;  // DeepSeek-V2: they cancel
  EXPECT_EQ(rope_frequencies(p)->magnitude, 1);

  p.mscale = 1;
  EXPECT_EQ(rope_frequencies(p)->magnitude,
            static_cast<float>((0.1 * std::log(4.0) + 1) / (0.1 * 0.707 * std::log(4.0) + 1)));
  p.attention_factor = 1.5;
  EXPECT_EQ(rope_frequencies(p)->magnitude, 1.5f);

  std::vector<float> divisors(64);
  for (int i = 0; i < 64; ++i) divisors[i] = 1 + 0.25f * static_cast<float>(i);
  p = plain;
  p.divisors = divisors;
  for (index i = 0; i < 64; ++i) EXPECT_TRUE(close((*rope_frequencies(p))[i], base(i) / divisors[i])) << i;
  divisors[3] = -1, divisors[4] = 1e30f;  // back, and not at all
  EXPECT_TRUE(close(-(*rope_frequencies(p))[3], base(3)));
  EXPECT_LT(std::abs((*rope_frequencies(p))[4]), 1e-29);
  p.scaling = RopeScaling::longrope, p.factor = 32, p.original_context = 4096;
  EXPECT_EQ(rope_frequencies(p)->magnitude, static_cast<float>(std::sqrt(1 + std::log(32.0) / std::log(4096.0))));

  p = plain;
  p.scaling = RopeScaling::dynamic, p.factor = 2, p.original_context = 4096, p.length = 4096;
  EXPECT_TRUE(close((*rope_frequencies(p))[63], base(63)));
  p.length = 8192;  // factor 2 * 2 - 1 = 3
  EXPECT_TRUE(close((*rope_frequencies(p))[63], base(63) / 3));
}

// gpt-oss: the ends of the ramp are no whole pairs, and turn other times than the paper's 32 and 1.
TEST(rope, yarn_with_ends_between_pairs) {
  const double tau = 2 * 3.14159265358979323846;
  RopeParameters p{.rotary_dim = 64, .theta = 150000, .scaling = RopeScaling::yarn, .factor = 32};
  p.original_context = 4096, p.truncate = false, p.beta_fast = 24, p.beta_slow = 2;
  const double low = 64 * std::log(4096 / (24 * tau)) / (2 * std::log(150000.0));
  const double high = 64 * std::log(4096 / (2 * tau)) / (2 * std::log(150000.0));
  const RopeFrequencies yarn = *rope_frequencies(p);
  for (index i = 0; i < 32; ++i) {
    const double f = std::pow(150000.0, -2.0 * i / 64), ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    EXPECT_NEAR(yarn[i], f * (1 - ramp) + f / 32 * ramp, 1e-13 * f) << i;
  }
}

// Waves of other lengths than Llama's 2048 and 8192, exactly at the ends too.
TEST(rope, llama3_with_other_ends) {
  const double tau = 2 * 3.14159265358979323846;
  RopeParameters p{.rotary_dim = 32, .theta = 10000, .scaling = RopeScaling::llama3, .factor = 16};
  p.original_context = 1024, p.low_freq_factor = 2, p.high_freq_factor = 8;
  const RopeFrequencies llama = *rope_frequencies(p);
  index between = 0;
  for (index i = 0; i < 16; ++i) {
    const double f = std::pow(10000.0, -2.0 * i / 32), waves = 1024 * f / tau, smooth = (waves - 2) / 6;
    const double expected = waves > 8 ? f : waves < 2 ? f / 16 : (1 - smooth) * f / 16 + smooth * f;
    EXPECT_NEAR(llama[i], expected, 1e-13 * f) << i;
    between += waves < 8 && waves > 2;
  }
  EXPECT_GT(between, 0);
}

TEST(rope, axes_of_sections) {
  const std::vector<index> sections{2, 3, 1};
  EXPECT_EQ(rope_axes(sections, 6), (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(rope_axes(sections, 8), (std::vector<std::int32_t>{0, 0, 1, 1, 1, 2, 0, 0}));
}

// Qwen3-VL's, as Transformers' apply_interleaved_mrope deals them out.
TEST(rope, axes_of_interleaved_sections) {
  using Axes = std::vector<std::int32_t>;
  const auto axes = [](const std::vector<index>& sections, index pairs) { return rope_axes(sections, pairs, true); };
  EXPECT_EQ(axes({4, 2, 2}, 8), (Axes{0, 1, 2, 0, 1, 2, 0, 0}));
  EXPECT_EQ(axes({2, 3, 1}, 6), (Axes{0, 1, 2, 0, 1, 0}));     // the pair that ends the turn of axis 2 is axis 0's
  EXPECT_EQ(axes({4, 2, 2, 0}, 8), axes({4, 2, 2}, 8));        // GGUF writes four sections
  EXPECT_EQ(axes({4, 0, 2, 0}, 6), (Axes{0, 0, 2, 0, 0, 2}));  // an axis in between keeps its place
  EXPECT_EQ(axes({2, 2, 0, 0}, 4), (Axes{0, 1, 0, 1}));
  EXPECT_EQ(axes({0, 0, 0, 0}, 3), (Axes{0, 0, 0}));
  EXPECT_EQ(axes({}, 3), (Axes{0, 0, 0}));

  Axes qwen3_vl;
  for (int i = 0; i < 20; ++i) qwen3_vl.insert(qwen3_vl.end(), {0, 1, 2});
  qwen3_vl.insert(qwen3_vl.end(), {0, 0, 0, 0});
  EXPECT_EQ(axes({24, 20, 20, 0}, 64), qwen3_vl);
}

TEST(rope, parameters_are_refused_by_name) {
  const auto message = [](const RopeParameters& p) { return std::string(rope_frequencies(p).error().message()); };
  EXPECT_NE(message({.rotary_dim = 7}).find("rotary_dim is 7"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .theta = 0}).find("theta"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .scaling = RopeScaling::yarn}).find("original_context"), std::string::npos);
  EXPECT_NE(message({.rotary_dim = 8, .scaling = static_cast<RopeScaling>(7)}).find("scaling is 7"), std::string::npos);
  const std::vector<float> three(3, 1.0f);
  EXPECT_NE(message({.rotary_dim = 8, .divisors = three}).find("divisors has 3"), std::string::npos);
  for (const float wrong : {0.0f, INFINITY, NAN}) {
    const std::vector<float> four = {1, 1, wrong, 1};
    EXPECT_NE(message({.rotary_dim = 8, .divisors = four}).find("divisors[2]"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace inlay::test
