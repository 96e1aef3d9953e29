// What is read of prompts: how large the x of int8 linears become; and linears that round by it.
#include <inlay/exec/calibration.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <inlay/ops/embedding.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

Weights weights_of(const ModelConfig& config, const std::string& type, std::uint64_t seed = 7) {
  auto weights = random_weights(config, type, serial(), seed);
  EXPECT_TRUE(weights.has_value());
  return std::move(*weights);
}

std::vector<std::vector<Token>> prompts_of(const ModelConfig& config) {
  return {tokens(13, config.vocab), tokens(30, config.vocab), {5}};
}

ActivationRanges ranges_of(const ModelConfig& config, double percentile) {
  auto ranges = calibrate(config, weights_of(config, "int8"), Cpu(serial()), prompts_of(config),
                          {.percentile = percentile, .chunk = 7});
  EXPECT_TRUE(ranges.has_value()) << ranges.error().message();
  return ranges ? std::move(*ranges) : ActivationRanges();
}

// Of q, k and v in the first layer, whose x is a norm of the embedding: in ascending order.
std::vector<float> magnitudes_of_the_first(const ModelConfig& config) {
  const Weights weights = weights_of(config, "int8");
  std::vector<float> all;
  Eager run{Reference{}};
  for (const auto& prompt : prompts_of(config)) {
    std::vector<float> x(prompt.size() * static_cast<std::size_t>(config.dim));
    const View<2> rows(x.data(), {static_cast<index>(prompt.size()), config.dim});
    run(Embedding<Host>{.table = weights.embedding.rows, .ids = {prompt.data(), {rows.extents[0]}}, .y = rows});
    run(RmsNorm<Host>{
        .x = rows, .weight = weights.layers[0].attn_norm, .y = rows, .eps = static_cast<float>(config.norm_eps)});
    EXPECT_TRUE(ok(run.take_status()));
    for (const float value : x) all.push_back(std::fabs(value));
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(calibration, the_largest_and_a_percentile_of_each_x_are_kept) {
  const ModelConfig config = tiny();
  const auto all = magnitudes_of_the_first(config);
  for (const double percentile : {100.0, 99.0, 60.0}) {
    SCOPED_TRACE(percentile);
    const ActivationRanges ranges = ranges_of(config, percentile);
    EXPECT_EQ(ranges.tokens, 13 + 30 + 1);
    ASSERT_EQ(static_cast<index>(ranges.layers.size()), config.layers);
    for (const auto& layer : ranges.layers)
      for (const auto& site : layer) {
        ASSERT_TRUE(site.has_value());
        EXPECT_GT(site->range, 0);
        if (percentile == 100)
          EXPECT_EQ(site->range, site->largest);
        else
          EXPECT_LT(site->range, site->largest);
      }
    ASSERT_TRUE(ranges.output.has_value());
    const ActivationRange first = *ranges.layers[0][static_cast<std::size_t>(ActivationSite::attn_in)];
    EXPECT_NEAR(first.largest, all.back(), 1e-5 * all.back());
    const auto place = static_cast<std::size_t>(std::ceil(percentile / 100 * static_cast<double>(all.size()))) - 1;
    EXPECT_GE(first.range, all[place] * (1 - 1e-5f));
    EXPECT_LE(first.range, all[place] * (1 + 1.01f / 128));
  }
}

std::vector<float> logits_of(const ModelConfig& config, Weights weights) {
  auto made = Session::make(config, std::move(weights), Eager(Cpu(serial())), {.context = 64, .chunk = 8});
  EXPECT_TRUE(made.has_value()) << made.error().message();
  std::vector<float> result = all(*made, made->append(tokens(21, config.vocab), 21));
  const auto next = all(*made, made->decode(5));
  result.insert(result.end(), next.begin(), next.end());
  return result;
}

// Whatever share is clipped: that is added. And it is another rounding than each token's own.
TEST(calibration, linears_round_by_the_scales_and_add_what_is_clipped) {
  const ModelConfig config = tiny();
  const auto expected = logits_of(config, weights_of(config, "int8"));
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  for (const double percentile : {100.0, 90.0}) {
    SCOPED_TRACE(percentile);
    Weights weights = weights_of(config, "int8");
    ASSERT_TRUE(ok(ranges_of(config, percentile).apply(config, weights)));
    const auto got = logits_of(config, std::move(weights));
    ASSERT_EQ(got.size(), expected.size());
    float most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::fabs(got[i] - expected[i]));
    EXPECT_GT(most, 0);
    EXPECT_LT(most, 0.15f * largest);
  }
}

TEST(calibration, a_file_holds_all_of_it) {
  const ActivationRanges ranges = ranges_of(tiny(), 99);
  const std::string text = ranges.json();
  const auto again = ActivationRanges::from_json(text);
  ASSERT_TRUE(again.has_value()) << again.error().message();
  EXPECT_EQ(again->json(), text);
  EXPECT_EQ(again->model.digest, ranges.model.digest);
  EXPECT_EQ(again->tokens, 44);
  EXPECT_EQ(again->percentile, 99);
  EXPECT_EQ(again->layers[1][3]->range, ranges.layers[1][3]->range);
}

TEST(calibration, a_file_that_is_not_of_the_form_is_refused_by_its_place) {
  const std::string model = R"({"architecture":"llama","layers":1,"dim":8,"vocab":9,"digest":"0"})";
  const auto file = [&](const std::string& layer, const std::string& rest = "", const std::string& of = "") {
    return R"({"scales":1,"model":)" + (of.empty() ? model : of) + R"(,"percentile":99,"tokens":4,"layers":[)" + layer +
           "]" + rest + "}";
  };
  ASSERT_TRUE(ActivationRanges::from_json(file(R"({"attn_in":{"largest":2,"range":1.5}})")).has_value());
  ASSERT_TRUE(ActivationRanges::from_json(file("{}", R"(,"output":{"largest":2,"range":2})")).has_value());
  const struct {
    std::string text, place;
  } rows[] = {{"{", ""},
              {"[]", "scales"},
              {R"({"scales":2})", "must have \"scales\": 1"},
              {file("{}", R"(,"more":1)"), "5 members"},
              {file("{},{}"), "/layers has 2 layers"},
              {file("3"), "/layers/0 is 3"},
              {file(R"({"ffn":{"largest":2,"range":1}})"), "/layers/0 must have no members but"},
              {file(R"({"ffn_in":{"largest":2}})"), "/layers/0/ffn_in must be an object of 2 members"},
              {file(R"({"ffn_in":{"largest":2,"range":3}})"), "/layers/0/ffn_in/range is 3"},
              {file(R"({"ffn_in":{"largest":2,"range":0}})"), "/layers/0/ffn_in/range is 0"},
              {file(R"({"ffn_in":{"largest":1e39,"range":1}})"), "/layers/0/ffn_in/largest is"},
              {file(R"({"ffn_in":{"largest":2,"range":"1"}})"), "/layers/0/ffn_in/range is \"1\""},
              {file("{}", "", R"({"architecture":"llama","layers":-1,"dim":8,"vocab":9,"digest":"0"})"), "/model"}};
  for (const auto& [text, place] : rows) {
    const auto read = ActivationRanges::from_json(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_NE(read.error().message().find(place), std::string::npos) << text << '\n' << read.error().message();
  }
}

TEST(calibration, scales_of_another_model_are_refused_by_name) {
  const ModelConfig config = tiny();
  const ActivationRanges ranges = ranges_of(config, 100);
  const auto refused = [&](const ModelConfig& of, Weights weights) {
    const Status status = ranges.apply(of, weights);
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  ModelConfig wide = config;
  wide.vocab = 117;
  EXPECT_EQ(refused(wide, weights_of(wide, "int8")), "scales: the model's vocab is 117, and the scales are of one of " +
                                                         std::to_string(config.vocab) + "; they must be of this model");
  Weights other = weights_of(config, "int8");
  other.layers[1].attn_norm = other.layers[0].ffn_norm.slice(0, 0, 1);
  EXPECT_NE(refused(config, std::move(other)).find("the model's digest is "), std::string::npos);
}

TEST(calibration, what_has_no_ranges_is_refused) {
  const ModelConfig config = tiny();
  const auto refused = [&](const std::string& type, const std::vector<std::vector<Token>>& prompts,
                           const CalibrationOptions& options = {}) {
    const auto ranges = calibrate(config, weights_of(config, type), Cpu(serial()), prompts, options);
    EXPECT_FALSE(ranges.has_value());
    return ranges ? std::string() : std::string(ranges.error().message());
  };
  EXPECT_NE(refused("w4a16", {{1}}).find("no linears of int8"), std::string::npos);
  EXPECT_EQ(refused("int8", {}), "there are no prompts; there must be at least 1");
  EXPECT_NE(refused("int8", {{1}, {}}).find("prompt 2 has 0 tokens"), std::string::npos);
  EXPECT_NE(refused("int8", {std::vector<Token>(static_cast<std::size_t>(config.context) + 1)}).find("the context"),
            std::string::npos);
  EXPECT_NE(refused("int8", {{static_cast<Token>(config.vocab)}}).find("prompt 1 has token "), std::string::npos);
  for (const double percentile : {0.0, 100.5, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(refused("int8", {{1}}, {.percentile = percentile}).find("percentile is "), std::string::npos);
  EXPECT_NE(refused("int8", {{1}}, {.chunk = 0}).find("chunk is 0"), std::string::npos);
}

}  // namespace
}  // namespace inlay::exec::test
