// The kernel looks at blocks of the vocabulary: what lies at their edges, ties between them, and masked ones.
#include "cpu_kernels/sampling.hpp"
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

constexpr index block = cpu::logit_block;
const std::vector<index> vocabularies = {1,         block - 1,     block,         block + 1,    2 * block - 1,
                                         2 * block, 2 * block + 1, 8 * block - 1, 8 * block + 9};

TEST(sampling, vocabularies_around_blocks) {
  Rng rng(41);
  for (index vocab : vocabularies)
    for (index k : {index{0}, index{1}, index{2}, index{7}, index{9}, vocab - 1}) {
      SamplingCase c = sampling_case(model_logits(5, vocab, rng, layouts[2]), sampling_settings());
      c.settings.top_k = k, c.settings.seed = vocab;
      c.settings.top_p = vocab % 2 ? 0.8f : 1.0f;
      ASSERT_NO_FATAL_FAILURE(compare_sampling(c));
    }
}

// In row r the largest logit is token r's, the next that of a token in another block.
TEST(sampling, the_largest_at_every_place) {
  constexpr index vocab = 2 * block + 5;
  Tensor<2> logits(DType::f32, {vocab, vocab});
  const auto next = [](index r) { return (r + block + 3) % vocab; };
  for (index r = 0; r < vocab; ++r)
    for (index i = 0; i < vocab; ++i)
      logits.set(r * vocab + i, i == r ? 3 : i == next(r) ? 2.75 : static_cast<double>(i % 5) / 4);
  for (float temperature : {0.0f, 1.0f})
    for (index k : {0, 1, 2})
      on_every_backend([&](const std::string&, auto run) {
        SamplingCase c = sampling_case(logits, sampling_settings());
        c.settings.temperature = temperature, c.settings.top_k = k;
        if (k == 0) c.settings.min_p = 0.7f;  // exp(-1/4) is 0.78
        ASSERT_TRUE(ok(run(c.op())));
        for (index r = 0; r < vocab; ++r) {
          const bool alone = temperature == 0 || k == 1;
          const auto token = static_cast<index>(c.tokens.get(r));
          ASSERT_TRUE(token == r || (!alone && token == next(r))) << token << " in row " << r;
          for (index i = 0; i < vocab; ++i) {
            const double weight = i == r ? 1 : i == next(r) && !alone ? std::exp(-0.25) : 0;
            ASSERT_NEAR(c.probs.get(r * vocab + i), weight / (alone ? 1 : 1 + std::exp(-0.25)), 1e-7) << r << ' ' << i;
          }
        }
      });
}

// All equal: of those that a filter cuts the first ids stay, whichever blocks they are in.
TEST(sampling, ties_across_blocks) {
  for (index vocab : {2 * block, 5 * block + 3})
    for (index kept : {index{1}, index{2}, block - 1, block, block + 1, 2 * block - 1}) {
      SamplingSettings settings = sampling_settings();
      settings.top_k = kept;
      std::vector<double> weights(static_cast<std::size_t>(vocab));
      std::fill_n(weights.begin(), kept, 1);
      ASSERT_NO_FATAL_FAILURE(
          expect_distribution(logits_of(std::vector<double>(weights.size(), 0.5)), settings, weights));
      settings.top_k = 0;
      settings.top_p = (static_cast<float>(kept) - 0.5f) / static_cast<float>(vocab);
      ASSERT_NO_FATAL_FAILURE(
          expect_distribution(logits_of(std::vector<double>(weights.size(), 0.5)), settings, weights));
    }
}

// One of each block is as large as the k-th: block maxima tie with the bound, and so do others inside a block.
TEST(sampling, ties_at_the_bound) {
  constexpr index blocks = 6;
  std::vector<double> values(blocks * block + 7, -1), weights(values.size());
  for (index b = 0; b < blocks; ++b) values[b * block + 5 * b] = 2;
  values[block + 40] = values[3 * block - 1] = 2;
  values[2 * block] = 3;
  SamplingSettings settings = sampling_settings();
  for (index k = 1; k <= blocks + 3; ++k) {
    settings.top_k = k;
    std::fill(weights.begin(), weights.end(), 0);
    weights[2 * block] = std::exp(1.0);
    index left = k - 1;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == 2 && left-- > 0) weights[i] = 1;
    ASSERT_NO_FATAL_FAILURE(expect_distribution(logits_of(values), settings, weights));
  }
}

// Blocks without a finite logit, one token of a block, and the last token alone.
TEST(sampling, masked_blocks) {
  for (index k : {0, 1, 3, 100}) {
    std::vector<double> values(4 * block + 2, -infinity), weights(values.size());
    SamplingSettings settings = sampling_settings();
    settings.top_k = k;
    values.back() = -7, weights.back() = 1;
    ASSERT_NO_FATAL_FAILURE(expect_distribution(logits_of(values), settings, weights));
    values[3 * block] = -8, weights[3 * block] = k == 1 ? 0 : std::exp(-1.0);
    values[block - 1] = -9, weights[block - 1] = k == 1 ? 0 : std::exp(-2.0);
    ASSERT_NO_FATAL_FAILURE(expect_distribution(logits_of(values), settings, weights));
    settings.top_p = 0.9999f, settings.typical_p = 0.9999f;
    ASSERT_NO_FATAL_FAILURE(expect_distribution(logits_of(values), settings, weights));
  }
}

// In row r token r alone is masked: the mean of the others, which top_n_sigma takes, must not see it.
TEST(sampling, a_masked_token_at_every_place) {
  constexpr index vocab = 2 * block;
  Rng rng(42);
  SamplingCase c = sampling_case(model_logits(vocab, vocab, rng), sampling_settings());
  for (index r = 0; r < vocab; ++r) c.logits.set(r * vocab + r, -infinity);
  for (float sigma : {0.0f, 1.0f}) {
    c.settings.top_n_sigma = sigma;
    ASSERT_NO_FATAL_FAILURE(compare_sampling(c));
  }
}

// Found wherever it lies: in row r at token r. The row behind them is sound.
TEST(sampling, what_is_not_finite_at_every_place) {
  constexpr index vocab = block + 19;
  for (double bad : {std::nan(""), infinity})
    for (index k : {0, 2})
      for (float temperature : {0.0f, 1.0f}) {
        Tensor<2> logits(DType::f32, {vocab + 1, vocab});
        for (index i = 0; i < logits.size(); ++i) logits.set(i, static_cast<double>(i % 11) - (i % 13 ? 5 : infinity));
        for (index r = 0; r < vocab; ++r) logits.set(r * vocab + r, bad);
        on_every_backend([&](const std::string&, auto run) {
          SamplingCase c = sampling_case(logits, sampling_settings());
          c.settings.top_k = k, c.settings.temperature = temperature;
          EXPECT_EQ(run(c.op()).code(), StatusCode::corrupt_data);
          for (index r = 0; r < vocab; ++r) ASSERT_EQ(c.tokens.get(r), -1) << r;
          ASSERT_GE(c.tokens.get(vocab), 0);
          for (index i = 0; i < vocab * vocab; ++i) ASSERT_EQ(c.probs.get(i), 0);
        });
      }
}

TEST(sampling, a_row_without_a_token_is_an_error_that_names_it) {
  Rng rng(6);
  struct Bad {
    double value;
    const char* word;
  };
  for (const Bad& bad : {Bad{std::nan(""), "NaN at token 271"}, Bad{infinity, "+infinity at token 271"},
                         Bad{-infinity, "no finite logit"}})
    for (float temperature : {0.0f, 1.0f}) {
      Tensor<2> logits = model_logits(4, 300, rng);
      for (index i = 0; i < 300; ++i)
        if (bad.value == -infinity || i == 271) logits.set(2 * 300 + i, bad.value);
      on_every_backend([&](const std::string&, auto run) {
        Tensor<1> tokens(DType::i32, {4});
        tokens.fill(5);
        const Status status =
            run(Sampling<Host>{.logits = logits, .tokens = tokens, .temperature = temperature, .top_k = 3});
        EXPECT_EQ(status.code(), StatusCode::corrupt_data);
        EXPECT_NE(status.message().find("row 2"), std::string_view::npos) << status.message();
        EXPECT_NE(status.message().find(bad.word), std::string_view::npos) << status.message();
        EXPECT_EQ(tokens.get(2), -1);
        for (index r : {0, 1, 3}) EXPECT_GE(tokens.get(r), 0);
      });
    }
}

TEST(sampling, greedy_takes_the_first_of_equals) {
  on_every_backend([&](const std::string&, auto run) {
    Tensor<2> logits(DType::f32, {2, 200});
    logits.fill(-infinity);
    for (index k : {70, 71, 130, 399}) logits.set(k, 2.5);
    Tensor<1> tokens(DType::i32, {2});
    ASSERT_TRUE(ok(run(Sampling<Host>{.logits = logits, .tokens = tokens, .temperature = 0})));
    EXPECT_EQ(tokens.get(0), 70);
    EXPECT_EQ(tokens.get(1), 199);
  });
}

// Equals in different parts of a vocabulary, which different units look through.
TEST(sampling, greedy_takes_the_first_of_equals_far_apart) {
  on_every_backend([&](const std::string&, auto run) {
    Tensor<2> logits(DType::f32, {2, 70000});
    logits.fill(-1);
    for (index k : {8191, 8192, 16384, 69999, 70000 + 40000, 70000 + 69999}) logits.set(k, 2.5);
    Tensor<1> tokens(DType::i64, {2});
    ASSERT_TRUE(ok(run(Sampling<Host>{.logits = logits, .tokens = tokens, .top_k = 1})));
    EXPECT_EQ(tokens.get(0), 8191);
    EXPECT_EQ(tokens.get(1), 40000);
  });
}

}  // namespace
}  // namespace inlay::test
