// What u is: the generator, its counter, and the token that a number picks. Answers are not computed by our own code:
// the vectors are Random123's (kat_vectors), the others come from randomgen 2.5.1 (Python), Philox(number=4, width=32),
// whose first block is that of the counter after the one given. u is the upper 53 bits of two words, high one first.
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

TEST(sampling, philox_known_answers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, {~0u, ~0u, ~0u, ~0u}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(sampling, unit_interval_by_hand) {
  EXPECT_EQ(unit_interval(0, 0), 0);
  EXPECT_EQ(unit_interval(0x80000000u, 0), 0.5);
  EXPECT_EQ(unit_interval(1, 0), 0x1p-32);
  EXPECT_EQ(unit_interval(0, 0x800), 0x1p-53);
  EXPECT_EQ(unit_interval(0, 0x7ff), 0);
  EXPECT_EQ(unit_interval(~0u, ~0u), 1 - 0x1p-53);
  EXPECT_EQ(unit_interval(0x659ef2d0, 0xb60225b4), 0x1.967bcb42d8088p-2);
}

// All that the counter holds: both halves of seed and step, signs, the row; and rows that have a seed of their own.
TEST(sampling, numbers_of_seed_step_and_row) {
  struct Answer {
    std::int64_t seed, step;
    index row;
    double draw, xtc;
  };
  for (const Answer& a : {Answer{0, 0, 0, 0x1.989fa35785a70p-2, 0x1.78af58993601bp-1},
                          Answer{42, 7, 0, 0x1.6ef60ec5a1e12p-2, 0x1.72067aa2e6b70p-4},
                          Answer{42, 7, 3, 0x1.967bcb42d8088p-2, 0x1.4334a91990978p-4},
                          Answer{-1, -1, 70000, 0x1.44f492d59cd30p-1, 0x1.082abed001d55p-1},
                          Answer{0x123456789abcdef0, 0x500000002, 1, 0x1.380b7b507d787p-1, 0x1.10063feac9e58p-4}}) {
    const Sampling<Host> op{.logits = {}, .tokens = {}, .seed = a.seed, .step = a.step};
    const SamplingNumbers numbers = sampling_numbers(op, a.row);
    EXPECT_EQ(numbers.draw, a.draw);
    EXPECT_EQ(numbers.xtc, a.xtc);
  }
  Tensor<1> seeds(DType::i64, {4}), steps(DType::i64, {4});
  const std::int64_t own_seeds[] = {1, 42, -0x123456789abcdef, 42}, own_steps[] = {3, 7, 5, 8};
  for (index r = 0; r < 4; ++r)
    seeds.data<std::int64_t>()[r] = own_seeds[r], steps.data<std::int64_t>()[r] = own_steps[r];
  const Sampling<Host> op{.logits = {}, .seeds = seeds, .steps = steps, .tokens = {}, .seed = 5, .step = 6};
  EXPECT_EQ(sampling_numbers(op, 1).draw, 0x1.6ef60ec5a1e12p-2);  // as row 0 of seed 42 and step 7
  EXPECT_EQ(sampling_numbers(op, 2).draw, 0x1.a19a3b2624e20p-6);
  EXPECT_EQ(sampling_numbers(op, 2).xtc, 0x1.31f550a4f6c63p-1);
  // One of the lists alone.
  const Sampling<Host> by_step{.logits = {}, .steps = steps, .tokens = {}, .seed = 42, .step = 6};
  EXPECT_EQ(sampling_numbers(by_step, 1).draw == 0x1.6ef60ec5a1e12p-2, false);  // row 1
  const Sampling<Host> by_seed{.logits = {}, .seeds = seeds, .tokens = {}, .seed = 5, .step = 7};
  EXPECT_EQ(sampling_numbers(by_seed, 1).draw, 0x1.6ef60ec5a1e12p-2);
  EXPECT_EQ(sampling_numbers(by_seed, 3).draw, 0x1.6ef60ec5a1e12p-2);
}

// Of equal logits token floor(u * vocab) is the first whose sum passes u.
void expect_tokens(index vocab, const Sampling<Host>& settings, const Tensor<1>& seeds, const Tensor<1>& steps,
                   const std::vector<double>& tokens) {
  const auto expect = [&](auto&& run) {
    SamplingCase c =
        sampling_case(Tensor<2>(DType::f32, {static_cast<index>(tokens.size()), vocab}).fill(-3), settings, false);
    c.seeds = seeds, c.steps = steps;
    ASSERT_TRUE(ok(run(c.op())));
    for (std::size_t r = 0; r < tokens.size(); ++r) ASSERT_EQ(c.tokens.get(static_cast<index>(r)), tokens[r]) << r;
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

TEST(sampling, tokens_of_known_numbers) {
  SamplingSettings settings = sampling_settings();
  settings.seed = 42;
  expect_tokens(1000, settings, {}, {}, {612, 10, 398, 40, 156, 482, 736, 405, 518, 286, 241, 922});  // rows 0..11
  settings.seed = 77, settings.step = 9;
  expect_tokens(65536, settings, {}, {}, {47308, 8405, 15815, 44978, 27215, 44887});
  settings.temperature = 0.01f, settings.top_p = 0.5f;  // half of them
  expect_tokens(65536, settings, {}, {}, {23654, 4202, 7907, 22489, 13607, 22443});
  const Tensor<1> same_seed = list_of(DType::i64, {42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42, 42});
  const Tensor<1> steps = list_of(DType::i64, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  settings = sampling_settings();
  expect_tokens(1000, settings, same_seed, steps, {612, 987, 825, 729, 326, 314, 225, 358, 548, 266, 524, 327});
  expect_tokens(1000, settings, list_of(DType::i64, {1000, 1001, 1002, 1003, 1004, 1005}),
                list_of(DType::i64, {9, 10, 11, 12, 13, 14}), {756, 40, 667, 280, 912, 817});
}

// xtc draws with the other half of the hash: below its probability, not at it. Rows 0..5 of seed 42.
TEST(sampling, xtc_has_a_number_of_its_own) {
  const std::vector<double> u = {0.07323173744158384, 0.23206616768418176, 0.4216173502364807,
                                 0.7230342835183604,  0.07655451148325232, 0.4809899716341125};
  for (float probability : {0.0732317f, 0.0732318f, 0.25f, 0.4216173f, 0.4216174f, 0.7230342f, 0.7230343f, 1.0f})
    on_every_backend([&](const std::string&, auto run) {
      Tensor<2> logits(DType::f32, {6, 2});
      logits.fill(1);
      SamplingCase c = sampling_case(logits, sampling_settings());
      c.settings.seed = 42, c.settings.xtc_probability = probability, c.settings.xtc_threshold = 0.4f;
      ASSERT_TRUE(ok(run(c.op())));
      for (std::size_t r = 0; r < u.size(); ++r)
        ASSERT_EQ(c.probs.get(2 * static_cast<index>(r)), u[r] < probability ? 0 : 0.5) << r << ' ' << probability;
    });
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

}  // namespace
}  // namespace inlay::test
