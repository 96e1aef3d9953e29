#include <algorithm>
#include <regex>

#include "tests/support/onnx.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
INLAY_RUNS_OF(Sampling);

namespace {

// Every stage is on or off at random, on logits of every kind: ties, masked ones, equal rows, wide ranges.
SamplingCase random_case(Rng& rng) {
  const auto chance = [&](int of) { return rng() % static_cast<unsigned>(of) == 0; };
  const auto share = [&] { return std::uniform_real_distribution<float>(0, 1)(rng); };
  const index rows = 1 + static_cast<index>(rng() % 7),
              vocab = chance(3) ? 1 + static_cast<index>(rng() % 12) : 1 + static_cast<index>(rng() % 400);
  Tensor<2> logits = model_logits(rows, vocab, rng, layouts[rng() % 3]);
  const bool ties = chance(2), masked = chance(3);
  const double spread = std::array{0.1, 1.0, 1.0, 30.0}[rng() % 4];
  for (index k = 0; k < logits.size(); ++k) {
    const double value = spread * logits.get(k);
    logits.set(k, masked && k % vocab > 0 && chance(3) ? -infinity : ties ? std::round(2 * value) / 2 : value);
  }
  SamplingCase c = sampling_case(logits, sampling_settings(), !chance(4));
  SamplingSettings& s = c.settings;
  s.temperature = std::array{0.0f, 0.3f, 1.0f, 1.0f, 1.0f, 2.5f}[rng() % 6];
  s.temperature_last = chance(2);
  if (chance(2)) s.top_k = 1 + static_cast<index>(rng() % static_cast<unsigned>(chance(2) ? 20 : vocab));
  if (chance(3)) s.typical_p = share();
  if (chance(2)) s.top_p = share();
  if (chance(3)) s.min_p = share() * (chance(2) ? 0.1f : 1.0f);
  if (chance(4)) s.top_n_sigma = 3 * share();
  if (chance(3)) s.xtc_probability = 0.7f, s.xtc_threshold = 0.3f * share();
  s.seed = static_cast<std::int64_t>(rng()), s.step = static_cast<std::int64_t>(rng() % 5);
  if (chance(3)) {
    c.history = Tensor<2>(chance(2) ? DType::i32 : DType::i64, {rows, 1 + static_cast<index>(rng() % 30)});
    c.history.integers(rng, -2, vocab - 1);
    s.repetition_penalty = 0.5f + share(), s.frequency_penalty = share() - 0.3f, s.presence_penalty = share() - 0.3f;
    if (chance(2)) c.prompt_lengths = Tensor<1>(DType::i32, {rows}).integers(rng, 0, c.history.extents()[1]);
  }
  if (chance(3)) c.seeds = Tensor<1>(DType::i64, {rows}).integers(rng, -1000, 1000);
  if (chance(3)) c.steps = Tensor<1>(DType::i64, {rows}).integers(rng, 0, 1000);
  return c;
}

TEST(sampling, random_settings) {
  Rng rng(1);
  for (int round = 0; round < 1500; ++round) ASSERT_NO_FATAL_FAILURE(compare_sampling(random_case(rng)));
}

// Two hundred rows of which three threads have different shares, each from its own scratch.
TEST(sampling, many_rows) {
  Rng rng(2);
  for (index rows : {0, 1, 2, 3, 200}) {
    SamplingCase c = sampling_case(model_logits(rows, 77, rng, layouts[1]), sampling_settings());
    c.settings.top_p = 0.9f;
    c.history = Tensor<2>(DType::i64, {rows, 40}).integers(rng, -1, 76);
    c.settings.repetition_penalty = 1.2f, c.settings.frequency_penalty = 0.3f;
    ASSERT_NO_FATAL_FAILURE(compare_sampling(c));
  }
}

// Thousands of candidates for one filter: bins of top_p that hold many, heaps of a vocabulary.
TEST(sampling, filters_of_many_candidates) {
  Rng rng(3);
  for (bool ties : {false, true})
    for (float share : {0.05f, 0.5f, 0.97f, 0.9999f}) {
      Tensor<2> logits = model_logits(3, 5003, rng);
      for (index k = 0; k < logits.size(); ++k) logits.set(k, ties ? std::round(logits.get(k)) : logits.get(k) / 9);
      for (int filter : {0, 1, 2}) {
        SamplingCase c = sampling_case(logits, sampling_settings());
        if (filter == 0) c.settings.top_p = share;
        if (filter == 1) c.settings.typical_p = share;
        if (filter == 2) c.settings.top_k = static_cast<index>(share * 5000);
        ASSERT_NO_FATAL_FAILURE(compare_sampling(c));
      }
    }
}

TEST(sampling, a_vocabulary_of_llama_3) {
  Rng rng(4);
  Tensor<2> logits = model_logits(1, 128256, rng);
  for (const Sampling<Host>& settings :
       {Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0},
        Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0.8f},
        Sampling<Host>{.logits = {}, .tokens = {}, .top_p = 0.95f},
        Sampling<Host>{.logits = {}, .tokens = {}, .temperature = 0.7f, .top_k = 50, .top_p = 0.9f},
        Sampling<Host>{.logits = {}, .tokens = {}, .top_k = 20000}})
    ASSERT_NO_FATAL_FAILURE(compare_sampling(sampling_case(logits, settings, settings.top_k > 0)));
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

// llama.cpp's own cases: the distribution after one sampler, sorted.
TEST(sampling, agrees_with_llama_cpp) {
  INLAY_NEEDS_DATA("sampling_cases.json");
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
  const Refused refused(Sampling<Host>{.logits = logits, .tokens = tokens});
  refused([](auto& op) { op.temperature = -1; }, {"temperature", "-1"});
  refused([](auto& op) { op.top_p = 1.5f; }, {"top_p", "1.5", "0"});
  refused([](auto& op) { op.min_p = std::nanf(""); }, {"min_p", "nan"});
  refused([](auto& op) { op.top_k = -2; }, {"top_k", "-2"});
  refused([](auto& op) { op.repetition_penalty = 0; }, {"repetition_penalty", "positive"});
  refused([](auto& op) { op.top_n_sigma = std::nanf(""); }, {"top_n_sigma", "nan"});
  refused([](auto& op) { op.top_n_sigma = -1; }, {"top_n_sigma", "-1"});
  refused([](auto& op) { op.temperature = std::nanf(""); }, {"temperature", "nan"});
  refused([](auto& op) { op.temperature = static_cast<float>(infinity); }, {"temperature", "inf"});
  refused([](auto& op) { op.top_p = -0.1f; }, {"top_p", "-0.1"});
  refused([](auto& op) { op.min_p = 1.1f; }, {"min_p", "1.1"});
  refused([](auto& op) { op.typical_p = 1.1f; }, {"typical_p", "1.1"});
  refused([](auto& op) { op.typical_p = -0.1f; }, {"typical_p", "-0.1"});
  refused([](auto& op) { op.xtc_probability = 1.5f; }, {"xtc_probability", "1.5"});
  refused([](auto& op) { op.xtc_threshold = -0.5f; }, {"xtc_threshold", "-0.5"});
  refused([](auto& op) { op.repetition_penalty = static_cast<float>(infinity); }, {"repetition_penalty", "inf"});
  refused([](auto& op) { op.frequency_penalty = std::nanf(""); }, {"frequency_penalty", "nan"});
  refused([](auto& op) { op.presence_penalty = static_cast<float>(infinity); }, {"presence_penalty", "inf"});
  Tensor<2> half(DType::f16, {2, 8}), long_history(DType::i32, {3, 3}), numbers(DType::f32, {2, 3}),
      narrow(DType::f32, {2, 7});
  Tensor<1> i32(DType::i32, {2}), three_seeds(DType::i64, {3}), reals(DType::f32, {2});
  refused([&](auto& op) { op.logits = half; }, {"logits", "f16", "f32"});
  refused([&](auto& op) { op.history = long_history; }, {"history", "3", "2"});
  refused([&](auto& op) { op.history = numbers; }, {"history", "f32"});
  refused([&](auto& op) { op.seeds = i32; }, {"seeds", "i32", "i64"});
  refused([&](auto& op) { op.seeds = three_seeds; }, {"seeds", "3", "2"});
  refused([&](auto& op) { op.steps = i32; }, {"steps", "i32", "i64"});
  refused([&](auto& op) { op.steps = three_seeds; }, {"steps", "3", "2"});
  refused([&](auto& op) { op.tokens = reals; }, {"tokens", "f32"});
  refused([&](auto& op) { op.probs = narrow; }, {"probs", "[2, 7]", "[2, 8]"});
  refused([&](auto& op) { op.probs = half; }, {"probs", "f16", "f32"});
  refused([&](auto& op) { op.probs = logits; }, {"probs", "overlaps", "logits"});
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
