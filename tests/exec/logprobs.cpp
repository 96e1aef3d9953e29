// Logarithms of probabilities: their definition in long double, ties by id, and rows that have none.
#include <cmath>
#include <limits>
#include <random>

#include <inlay/exec/logprobs.hpp>

#include <gtest/gtest.h>

namespace inlay::exec {
namespace {

Expected<Logprobs> of(const std::vector<float>& row, Token chosen, index count) {
  return logprobs_of({row.data(), {static_cast<index>(row.size())}}, chosen, count);
}

TEST(Logprobs, are_logits_less_the_logarithm_of_the_sum) {
  std::mt19937 rng(5);
  for (const float reach : {1.0f, 30.0f, 1e30f}) {
    std::vector<float> row(50);
    for (float& v : row) v = std::uniform_real_distribution<float>(-reach, reach)(rng);
    row[7] = -std::numeric_limits<float>::infinity();
    long double most = row[0], sum = 0;
    for (const float v : row) most = std::fmax(most, static_cast<long double>(v));
    for (const float v : row) sum += std::exp(v - most);
    const auto told = of(row, 11, 50);
    ASSERT_TRUE(told) << told.error().message();
    EXPECT_EQ(told->chosen.token, 11);
    ASSERT_EQ(told->likeliest.size(), 50u);
    for (std::size_t i = 0; i < 50; ++i) {
      const auto [token, logprob] = told->likeliest[i];
      const long double exact = row[static_cast<std::size_t>(token)] - most - std::log(sum);
      if (std::isfinite(exact)) {
        EXPECT_NEAR(logprob, static_cast<double>(exact), 1e-12 * std::fmax(1, std::abs(static_cast<double>(exact))));
      } else {
        EXPECT_EQ(logprob, -std::numeric_limits<double>::infinity());
      }
      if (i > 0) {
        EXPECT_LE(logprob, told->likeliest[i - 1].logprob);
      }
      if (token == 11) {
        EXPECT_EQ(logprob, told->chosen.logprob);
      }
    }
    EXPECT_EQ(told->likeliest.back().token, 7);
  }
}

TEST(Logprobs, of_two_alike_the_smaller_id_comes_first) {
  const auto told = of({1, 3, 2, 3, 3}, 0, 3);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->likeliest[0].token, 1);
  EXPECT_EQ(told->likeliest[1].token, 3);
  EXPECT_EQ(told->likeliest[2].token, 4);
}

TEST(Logprobs, refuse_what_has_none) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refused = [](const Expected<Logprobs>& told, const char* word) {
    ASSERT_FALSE(told);
    EXPECT_NE(told.error().message().find(word), std::string_view::npos) << told.error().message();
  };
  refused(of({1, 2}, 2, 0), "chosen token is 2");
  refused(of({1, 2}, -1, 0), "-1");
  refused(of({1, 2}, 0, 3), "count is 3");
  refused(of({-infinity, -infinity}, 0, 1), "finite");
  refused(of({infinity, 0}, 0, 1), "+infinity");
}

}  // namespace
}  // namespace inlay::exec
