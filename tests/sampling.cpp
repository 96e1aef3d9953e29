#include <inlay/ops/sampling.hpp>

#include <algorithm>
#include <regex>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/onnx.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Logits like a model's: most far below a few.
Tensor<2> model_logits(index rows, index vocab, Rng& rng, Layout layout = {}) {
  std::normal_distribution<double> values(0, 3);
  Tensor<2> logits(DType::f32, {rows, vocab}, layout);
  for (index k = 0; k < logits.size(); ++k) logits.set(k, values(rng));
  return logits;
}

// Tokens are the reference's exactly; probabilities to a rounding of f32.
void compare(const Sampling<Host>& settings, Tensor<2>& logits, bool with_probs = true) {
  const index rows = logits.extents()[0];
  Tensor<1> expected(DType::i32, {rows});
  Tensor<2> probs(DType::f32, logits.extents());
  const auto op = [&](Tensor<1>& tokens, Tensor<2>& distribution) {
    Sampling<Host> op = settings;
    op.logits = logits;
    op.tokens = tokens;
    if (with_probs) op.probs = distribution;
    return op;
  };
  SCOPED_TRACE(describe(op(expected, probs)));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, op(expected, probs))));
  on_every_backend([&](const std::string&, auto run) {
    Tensor<1> tokens(DType::i64, {rows});
    Tensor<2> got(DType::f32, logits.extents());
    got.poison();
    ASSERT_TRUE(ok(run(op(tokens, got))));
    expect_equal(tokens, expected);
    if (with_probs) expect_close(got, probs, 2);
  });
}

TEST(sampling, sweep_of_filters_and_vocabularies) {
  Rng rng(1);
  std::vector<Sampling<Host>> settings;
  for (float temperature : {0.0f, 0.3f, 1.0f, 2.5f}) {
    settings.push_back({.logits = {}, .tokens = {}, .temperature = temperature});
    settings.push_back({.logits = {}, .tokens = {}, .temperature = temperature, .top_k = 5, .temperature_last = true});
    settings.push_back(
        {.logits = {}, .tokens = {}, .temperature = temperature, .top_k = 40, .top_p = 0.9f, .min_p = 0.02f});
    settings.push_back(
        {.logits = {}, .tokens = {}, .temperature = temperature, .top_p = 0.8f, .temperature_last = true});
    settings.push_back({.logits = {}, .tokens = {}, .temperature = temperature, .min_p = 0.1f, .typical_p = 0.7f});
    settings.push_back({.logits = {},
                        .tokens = {},
                        .temperature = temperature,
                        .top_n_sigma = 1.5f,
                        .xtc_probability = 0.5f,
                        .xtc_threshold = 0.05f});
    settings.push_back({.logits = {}, .tokens = {}, .temperature = temperature, .top_k = 100, .top_p = 0.0f});
  }
  for (index vocab : {1, 2, 7, 63, 64, 65, 129, 1001})
    for (std::size_t i = 0; i < settings.size(); ++i) {
      Tensor<2> logits = model_logits(vocab % 4, vocab, rng, layouts[i % 3]);
      if (vocab > 100)  // ties, and masked tokens
        for (index k = 0; k < logits.size(); ++k)
          logits.set(k, k % 7 == 0 ? -infinity : k % 5 ? logits.get(k) : std::round(logits.get(k)));
      settings[i].seed = static_cast<std::int64_t>(rng());
      ASSERT_NO_FATAL_FAILURE(compare(settings[i], logits, i % 2));
    }
}

TEST(sampling, a_vocabulary_of_llama_3) {
  Rng rng(2);
  Tensor<2> logits = model_logits(1, 128256, rng);
  for (const Sampling<Host>& settings :
       {Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0},
        Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0.8f},
        Sampling<Host>{.logits = {}, .tokens = {}, .top_p = 0.95f},
        Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0.7f, .top_k = 50, .top_p = 0.9f},
        Sampling<Host>{.logits = {}, .tokens = {}, .top_k = 20000}})
    ASSERT_NO_FATAL_FAILURE(compare(settings, logits, false));
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

TEST(sampling, penalties_count_the_history_of_each_row) {
  Rng rng(3);
  for (DType type : {DType::i32, DType::i64}) {
    Tensor<2> logits = model_logits(3, 90, rng), history(type, {3, 20}, {.row_gap = 2, .misaligned = 0});
    history.integers(rng, -1, 30);
    Tensor<1> lengths = Tensor<1>(type, {3}).integers(rng, 0, 20);
    for (const ConstView<1>& prompts : {ConstView<1>(), ConstView<1>(lengths)})
      ASSERT_NO_FATAL_FAILURE(compare({.logits = {},
                                       .history = history,
                                       .prompt_lengths = prompts,
                                       .tokens = {},
                                       .repetition_penalty = 1.3f,
                                       .frequency_penalty = 0.2f,
                                       .presence_penalty = 0.4f},
                                      logits));
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

// One draw depends on (seed, step, row) alone: not on the batch, the threads, or earlier draws.
TEST(sampling, a_row_with_its_own_seed_does_not_know_its_batch) {
  Rng rng(4);
  Tensor<2> one = model_logits(1, 500, rng), many(DType::f32, {4, 500});
  for (index k = 0; k < many.size(); ++k) many.set(k, one.get(k % 500));
  Tensor<1> seeds(DType::i64, {4}), steps(DType::i64, {4});
  seeds.fill(77);
  for (index r = 0; r < 4; ++r) steps.set(r, static_cast<double>(r));
  std::vector<double> first;
  on_every_backend([&](const std::string&, auto run) {
    Tensor<1> tokens(DType::i32, {4}), alone(DType::i32, {1});
    ASSERT_TRUE(ok(run(Sampling<Host>{.logits = many, .seeds = seeds, .steps = steps, .tokens = tokens})));
    for (index r = 0; r < 4; ++r) {
      ASSERT_TRUE(ok(run(Sampling<Host>{.logits = one, .tokens = alone, .seed = 77, .step = r})));
      EXPECT_EQ(alone.get(0), tokens.get(r));
    }
    std::vector<double> drawn;
    for (index r = 0; r < 4; ++r) drawn.push_back(tokens.get(r));
    if (first.empty()) first = drawn;
    EXPECT_EQ(drawn, first);
  });
}

// Known answers of Philox4x32-10 (Random123's kat_vectors).
TEST(sampling, philox_known_answers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// FlashInfer's check: frequencies against probabilities. With 200000 draws over 50 tokens chi-square
// has 49 degrees of freedom: above 100 lies one run in 10^5, and the seed is fixed.
TEST(sampling, frequencies_follow_the_distribution) {
  constexpr index draws = 200000, batch = 10000, vocab = 50;
  Rng rng(5);
  Tensor<2> one = model_logits(1, vocab, rng);
  for (const Sampling<Host>& settings : {Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 1.5f},
                                         Sampling<Host>{.logits = {}, .tokens = {}, .top_k = 12, .top_p = 0.95f}}) {
    Tensor<2> probs(DType::f32, {1, vocab});
    Tensor<1> token(DType::i32, {1});
    Sampling<Host> op = settings;
    op.logits = one, op.tokens = token, op.probs = probs;
    const Cpu cpu;
    ASSERT_TRUE(ok(run_with_scratch(cpu, op)));
    ConstView<2> rows = one;
    rows.extents[0] = batch;
    rows.strides[0] = 0;
    std::vector<double> count(vocab);
    Tensor<1> tokens(DType::i32, {batch});
    op.logits = rows, op.tokens = tokens, op.probs = {};
    for (op.step = 0; op.step < draws / batch; ++op.step) {
      ASSERT_TRUE(ok(run_with_scratch(cpu, op)));
      for (index r = 0; r < batch; ++r) ++count[static_cast<index>(tokens.get(r))];
    }
    double chi = 0, dot = 0, p2 = 0, f2 = 0;
    for (index i = 0; i < vocab; ++i) {
      const double p = probs.get(i), f = count[i] / draws;
      if (p == 0) {
        ASSERT_EQ(count[i], 0) << "a token that was filtered out was drawn";
      } else {
        chi += draws * (f - p) * (f - p) / p;
      }
      dot += p * f, p2 += p * p, f2 += f * f;
    }
    EXPECT_LT(chi, 100);
    EXPECT_GT(dot / std::sqrt(p2 * f2), 0.9999);
  }
}

TEST(sampling, a_row_without_a_token_is_an_error_that_names_it) {
  Rng rng(6);
  struct Bad {
    double value;
    const char* word;
  };
  for (const Bad& bad : {Bad{std::nan(""), "NaN"}, Bad{infinity, "+infinity"}, Bad{-infinity, "no finite logit"}})
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

// A number, or a list of them, under `key` in the text of one JSON object.
std::vector<double> numbers(const std::string& object, const std::string& key) {
  std::smatch match;
  std::vector<double> values;
  if (!std::regex_search(object, match, std::regex("\"" + key + "\":\\s*(\\[[^\\]]*\\]|[-0-9.e]+)"))) return values;
  const std::string text = match[1];
  const std::regex number("[-0-9.e]+");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), number); it != std::sregex_iterator(); ++it)
    values.push_back(std::stod(it->str()));
  return values;
}

// 0 is off, as llama.cpp has it, and so is infinity: both give what no filter gives.
TEST(sampling, top_n_sigma_0_is_off) {
  Rng rng(8);
  Tensor<2> logits = model_logits(3, 200, rng);
  for (bool last : {false, true}) {
    const auto probs = [&](float n, auto&& run) {
      Tensor<2> probs(DType::f32, {3, 200});
      Tensor<1> tokens(DType::i32, {3});
      EXPECT_TRUE(ok(run(Sampling<Host>{
          .logits = logits, .tokens = tokens, .probs = probs, .top_n_sigma = n, .temperature_last = last})));
      return probs;
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

// llama.cpp's own cases: the distribution after one sampler, sorted.
TEST(sampling, agrees_with_llama_cpp) {
  if (!have_data("sampling_cases.json")) return;
  const std::string text = read_file("sampling_cases.json");
  const std::regex object("\\{[^{}]*\"op\"[^{}]*\\}");
  int cases = 0;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), object); it != std::sregex_iterator(); ++it, ++cases) {
    const std::string json = it->str();
    SCOPED_TRACE(json);
    const auto has = [&](const char* op) {
      return std::regex_search(json, std::regex("\"op\":\\s*\"" + std::string(op) + "\""));
    };
    const auto number = [&](const char* key) { return static_cast<float>(numbers(json, key).at(0)); };
    Sampling<Host> settings{.logits = {}, .tokens = {}, .temperature_last = true};
    std::vector<double> last = numbers(json, "last_tokens"), expected = numbers(json, "expected");
    Tensor<2> history(DType::i32, {1, static_cast<index>(last.size())});
    for (std::size_t i = 0; i < last.size(); ++i) history.set(static_cast<index>(i), last[i]);
    if (has("temp") || has("temp_ext")) settings.temperature = number("temp");
    if (has("top_k")) settings.top_k = static_cast<index>(number("k"));
    if (has("top_p")) settings.top_p = number("p");
    if (has("min_p")) settings.min_p = number("p");
    if (has("typical")) settings.typical_p = number("p");
    if (has("top_n_sigma")) settings.top_n_sigma = number("n");
    if (has("xtc")) settings.xtc_probability = number("probability"), settings.xtc_threshold = number("threshold");
    const bool penalties = has("penalties");
    if (penalties) {
      settings.history = history;
      settings.repetition_penalty = number("repeat");
      settings.frequency_penalty = number("freq");
      settings.presence_penalty = number("present");
    }
    const std::vector<double> given = numbers(json, "probs");
    // The file is older than llama.cpp's change #13345, since when 0 turns the filter off there too.
    if (has("top_n_sigma") && settings.top_n_sigma == 0) {
      expected = given;
      std::sort(expected.rbegin(), expected.rend());
    }
    const index n = static_cast<index>(given.size());
    Tensor<2> logits(DType::f32, {1, n});
    for (index i = 0; i < n; ++i) logits.set(i, std::log(given[i]));
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> probs(DType::f32, {1, n});
      Tensor<1> tokens(DType::i32, {1});
      Sampling<Host> op = settings;
      op.logits = logits, op.tokens = tokens, op.probs = probs;
      ASSERT_TRUE(ok(run(op)));
      std::vector<double> got;
      for (index i = 0; i < n; ++i) got.push_back(probs.get(i));
      std::sort(got.rbegin(), got.rend());
      // Their list is not renormalised where it was cut to one; ours always sums to 1.
      double sum = 0;
      for (double p : expected) sum += p;
      for (index i = 0; i < n; ++i) {
        const double e = i < static_cast<index>(expected.size()) ? expected[i] / sum : 0;
        ASSERT_NEAR(got[i], e, penalties ? 1e-3 : 1e-5) << i;
      }
    });
  }
  EXPECT_EQ(cases, 35);
}

TEST(sampling, refuses_what_the_contract_does_not_cover) {
  Tensor<2> logits(DType::f32, {2, 8}), history(DType::i32, {2, 3});
  Tensor<1> tokens(DType::i32, {2}), three(DType::i32, {3});
  history.fill(-1);
  const Sampling<Host> good{.logits = logits, .tokens = tokens};
  ASSERT_TRUE(ok(check(good)));
  const auto refused = [&](auto change, std::initializer_list<std::string_view> words) {
    Sampling<Host> op = good;
    change(op);
    expect_refused(op, words);
  };
  refused([](auto& op) { op.temperature = -1; }, {"temperature", "-1"});
  refused([](auto& op) { op.top_p = 1.5f; }, {"top_p", "1.5", "0"});
  refused([](auto& op) { op.min_p = std::nanf(""); }, {"min_p", "nan"});
  refused([](auto& op) { op.top_k = -2; }, {"top_k", "-2"});
  refused([](auto& op) { op.repetition_penalty = 0; }, {"repetition_penalty", "positive"});
  refused([](auto& op) { op.top_n_sigma = std::nanf(""); }, {"top_n_sigma", "nan"});
  refused([](auto& op) { op.top_n_sigma = -1; }, {"top_n_sigma", "-1"});
  refused([&](auto& op) { op.tokens = three; }, {"tokens", "3", "2"});
  history.set(4, 8);
  refused([&](auto& op) { op.history = history; }, {"history[1,1]", "8", "below 8"});
  history.fill(-1);
  refused([&](auto& op) { op.prompt_lengths = tokens; }, {"prompt_lengths", "history"});
  Tensor<1> lengths(DType::i64, {2});
  lengths.set(0, 0), lengths.set(1, 4);
  refused([&](auto& op) { op.history = history, op.prompt_lengths = lengths; }, {"prompt_lengths[1]", "4", "0..3"});
  lengths.set(1, -1);
  refused([&](auto& op) { op.history = history, op.prompt_lengths = lengths; }, {"prompt_lengths[1]", "-1"});
  Tensor<2> empty(DType::f32, {2, 0});
  refused([&](auto& op) { op.logits = empty; }, {"logits", "no token"});
}

}  // namespace
}  // namespace inlay::test
