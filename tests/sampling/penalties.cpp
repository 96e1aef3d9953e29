#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

// Rows of different lengths, padded on either side; ids that come again; tokens of both ends of the vocabulary.
TEST(sampling, penalties_count_the_history_of_each_row) {
  Rng rng(3);
  for (DType type : {DType::i32, DType::i64})
    for (index length : {0, 1, 20, 300})
      for (bool with_prompts : {false, true}) {
        SamplingCase c = sampling_case(model_logits(7, 90, rng, layouts[1]), sampling_settings());
        c.history = Tensor<2>(type, {7, length}, {.row_gap = 2, .misaligned = 0});
        c.history.integers(rng, -1, length == 300 ? 89 : 30);
        for (index r = 0; r < 7; ++r)
          for (index i = 0; i < length; ++i) {
            if (i < r || i > length - 3 * r) c.history.set(r * length + i, r % 2 ? -1 : -1e6);
            if (i == r + 1) c.history.set(r * length + i, r % 2 ? 0 : 89);
          }
        if (with_prompts) {
          c.prompt_lengths = Tensor<1>(type == DType::i32 ? DType::i64 : DType::i32, {7}).integers(rng, 0, length);
          c.prompt_lengths.set(0, 0), c.prompt_lengths.set(6, static_cast<double>(length));
        }
        c.settings.repetition_penalty = 1.3f;
        c.settings.frequency_penalty = 0.2f;
        c.settings.presence_penalty = with_prompts ? 0.4f : -0.4f;
        ASSERT_NO_FATAL_FAILURE(compare_sampling(c));
      }
}

// By hand: vLLM's and OpenAI's rule. Token 0 is of neither.
TEST(sampling, frequency_and_presence_count_the_output_repetition_both) {
  Tensor<2> logits(DType::f32, {2, 6}), history(DType::i64, {2, 9});
  for (index k = 0; k < 12; ++k) logits.set(k, k % 6 == 5 ? -1 : 1);
  //                  prompt             output
  const double row[] = {1, 1, 2, 5, -1, /**/ 2, 3, 3, -1};
  for (index k = 0; k < 18; ++k) history.set(k, row[k % 9]);
  Tensor<1> lengths(DType::i32, {2});
  lengths.set(0, 5), lengths.set(1, 9);  // the second row has no output yet
  const double once = 0.5 + 0.25, twice = 2 * 0.5 + 0.25;
  const double expected[2][6] = {{1, 0.5, 0.5 - once, 0.5 - twice, 1, -2}, {1, 0.5, 0.5, 0.5, 1, -2}};
  const double all_is_output[6] = {1, 0.5 - twice, 0.5 - twice, 0.5 - twice, 1, -2 - once};
  const auto expect = [&](auto&& run) {
    Tensor<2> probs(DType::f32, {2, 6});
    Tensor<1> tokens(DType::i32, {2});
    Sampling<Host> op{.logits = logits,
                      .history = history,
                      .prompt_lengths = lengths,
                      .tokens = tokens,
                      .probs = probs,
                      .repetition_penalty = 2,
                      .frequency_penalty = 0.5f,
                      .presence_penalty = 0.25f};
    ASSERT_TRUE(ok(run(op)));
    for (index r = 0; r < 2; ++r)
      for (index i = 0; i < 6; ++i)
        ASSERT_NEAR(1 + std::log(probs.get(r * 6 + i) / probs.get(r * 6)), expected[r][i], 1e-6) << r << " " << i;
    op.prompt_lengths = {};
    ASSERT_TRUE(ok(run(op)));
    for (index i = 0; i < 6; ++i) ASSERT_NEAR(1 + std::log(probs.get(i) / probs.get(0)), all_is_output[i], 1e-6) << i;
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

// The prompt's length belongs to its row: in each the same history, one entry more of it output.
TEST(sampling, output_begins_where_the_rows_prompt_ends) {
  for (DType type : {DType::i32, DType::i64}) {
    Tensor<2> history(DType::i32, {4, 3});
    for (index k = 0; k < 12; ++k) history.set(k, static_cast<double>(1 + k % 3));
    const Tensor<1> lengths = list_of(type, {3, 2, 1, 0});
    const Sampling<Host> op{.logits = {}, .history = history, .prompt_lengths = lengths, .tokens = {}};
    for (index r = 0; r < 4; ++r) EXPECT_EQ(output_begin(op, r), 3 - r);
    EXPECT_EQ(output_begin(Sampling<Host>{.logits = {}, .history = history, .tokens = {}}, 2), 0);
    const auto expect = [&](auto&& run) {
      SamplingCase c = sampling_case(Tensor<2>(DType::f32, {4, 4}).fill(2), sampling_settings());
      c.history = history, c.prompt_lengths = lengths;
      c.settings.frequency_penalty = 100;
      ASSERT_TRUE(ok(run(c.op())));
      for (index r = 0; r < 4; ++r)
        for (index id = 0; id < 4; ++id)
          ASSERT_NEAR(c.probs.get(4 * r + id), id <= 3 - r ? 1.0 / static_cast<double>(4 - r) : 0, 1e-6)
              << r << ' ' << id;
    };
    Reference reference;
    expect([&](const auto& op) { return run(reference, op); });
    on_every_backend([&](const std::string&, auto run) { expect(run); });
  }
}

// Greedy shows the roundings, each in f32 and in the contract's order: a token that has that logit itself ties with the
// penalised one, whose id is smaller; the float above it is larger.
TEST(sampling, penalties_are_rounded_in_f32) {
  const float penalised = 1.7f / 1.3f - (3.0f * 0.1f + 0.2f);
  for (int ulp : {-1, 0, 1})
    on_every_backend([&](const std::string&, auto run) {
      float other = penalised;
      for (int step = 0; step < std::abs(ulp); ++step) other = std::nextafter(other, ulp > 0 ? 9.0f : -9.0f);
      SamplingCase c = sampling_case(logits_of({-5, 1.7f, other}), sampling_settings());
      c.history = Tensor<2>(DType::i32, {1, 3}).fill(1);
      c.settings.temperature = 0;
      c.settings.repetition_penalty = 1.3f, c.settings.frequency_penalty = 0.1f, c.settings.presence_penalty = 0.2f;
      ASSERT_TRUE(ok(run(c.op())));
      ASSERT_EQ(c.tokens.get(0), ulp > 0 ? 2 : 1) << ulp;
    });
}

// A penalty may mask a token, or all of them, or lift one beyond f32.
TEST(sampling, penalties_out_of_range) {
  const auto expect = [&](auto&& run) {
    SamplingCase c = sampling_case(logits_of({3e38, 1, -infinity}), sampling_settings());
    c.history = Tensor<2>(DType::i32, {1, 3});
    c.history.set(0, 0), c.history.set(1, 2), c.history.set(2, 2);
    c.settings.frequency_penalty = 3e38f, c.settings.presence_penalty = 3.3e38f;
    SamplingCase masks = c;
    ASSERT_TRUE(ok(run(masks.op())));
    EXPECT_EQ(masks.tokens.get(0), 1);
    EXPECT_EQ(masks.probs.get(1), 1);
    for (bool up : {false, true}) {
      SamplingCase none = c;
      if (up)
        none.settings.repetition_penalty = 0.1f, none.settings.frequency_penalty = none.settings.presence_penalty = 0;
      else
        none.logits.set(0, -1e38), none.logits.set(1, -infinity);
      const Status status = run(none.op());
      EXPECT_EQ(status.code(), StatusCode::corrupt_data);
      EXPECT_NE(status.message().find(up ? "+infinity" : "no finite logit"), std::string_view::npos)
          << status.message();
      EXPECT_NE(status.message().find("after the penalties"), std::string_view::npos) << status.message();
      EXPECT_EQ(none.tokens.get(0), -1);
    }
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

}  // namespace
}  // namespace inlay::test
