#include "tests/moe_routing/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// The routers that models have.
struct Router {
  const char* model;
  index experts, top_k, groups, groups_kept;
  MoeScore score;
  MoeGroupScore group_score;
  bool has_bias, renormalize;
  float scale, jitter = 0;
};
const Router routers[] = {
    {"DeepSeek-V3", 256, 8, 8, 4, MoeScore::sigmoid, MoeGroupScore::sum_of_two, true, true, 2.5f},
    {"DeepSeek-V2", 160, 6, 8, 3, MoeScore::softmax, MoeGroupScore::best, false, false, 16},
    {"Kimi K2", 384, 8, 1, 1, MoeScore::sigmoid, MoeGroupScore::best, true, true, 2.827f},
    {"Qwen3", 128, 8, 1, 1, MoeScore::softmax, MoeGroupScore::best, false, true, 1},
    {"Qwen3-Next", 512, 10, 1, 1, MoeScore::softmax, MoeGroupScore::best, false, true, 1},
    {"gpt-oss-20b", 32, 4, 1, 1, MoeScore::softmax_of_chosen, MoeGroupScore::best, false, false, 1},
    {"gpt-oss-120b", 128, 4, 1, 1, MoeScore::softmax_of_chosen, MoeGroupScore::best, false, false, 1},
    {"Mixtral", 8, 2, 1, 1, MoeScore::softmax, MoeGroupScore::best, false, true, 1},
    {"Phi-3.5-MoE", 16, 2, 1, 1, MoeScore::sparsemixer, MoeGroupScore::best, false, false, 1, 0.01f},
    {"Llama 4", 16, 1, 1, 1, MoeScore::sigmoid, MoeGroupScore::best, false, false, 1},
};

MoeRoutingCase case_of(const Router& router, DType type, index tokens, Layout layout, Rng& rng) {
  MoeRoutingCase c = moe_routing_case(type, tokens, router.experts, router.top_k, layout);
  c.logits.uniform(rng, -6, 6);
  if (router.has_bias) c.bias = Tensor<1>(DType::f32, {router.experts}).uniform(rng, -0.2, 0.2);
  c.score = router.score, c.group_score = router.group_score;
  c.groups = router.groups, c.groups_kept = router.groups_kept;
  c.renormalize = router.renormalize, c.scale = router.scale, c.jitter = router.jitter;
  return c;
}

TEST(moe_routing, routers_of_models) {
  Rng rng(1);
  std::size_t turn = 0;
  for (const Router& router : routers)
    for (DType type : float_types)
      for (index tokens : {1, 5, 37}) {
        SCOPED_TRACE(router.model);
        ASSERT_NO_FATAL_FAILURE(compare_moe_routing(case_of(router, type, tokens, layouts[turn++ % 3], rng)));
      }
}

// Every count of experts around registers and blocks, of them all, one or some; every kind of score, with and without a
// bias. Ties abound in 16 bits.
TEST(moe_routing, sweep) {
  Rng rng(2);
  std::size_t turn = 0;
  for (DType type : float_types)
    for (index experts : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 257, 513})
      for (index top_k : {index{1}, (experts + 1) / 2, experts}) {
        if (top_k > 20 && turn % 4 != 0) top_k = 20;
        MoeRoutingCase c = moe_routing_case(type, row_counts[turn % 5], experts, top_k, layouts[turn % 3]);
        c.logits.uniform(rng, -3, 3);
        c.score = static_cast<MoeScore>(turn % 4);
        if (c.score == MoeScore::sparsemixer) c.jitter = turn % 3 == 0 ? 0.01f : 0.3f;
        if (c.score < MoeScore::softmax_of_chosen && turn % 5 < 2)
          c.bias = Tensor<1>(DType::f32, {experts}).uniform(rng, -1, 1);
        c.renormalize = turn % 2 == 0;
        c.scale = turn % 7 == 0 ? -0.5f : 1;
        ++turn;
        ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
      }
}

// Groups of every size, those of one register and less among them, in both kinds of value.
TEST(moe_routing, groups) {
  Rng rng(3);
  std::size_t turn = 0;
  for (auto [experts, groups] : {std::pair<index, index>{6, 3}, {10, 5}, {24, 2}, {36, 3}, {64, 32}, {96, 4}, {140, 7}})
    for (index kept : {index{1}, groups / 2, groups - 1, groups})
      for (auto value : {MoeGroupScore::best, MoeGroupScore::sum_of_two})
        for (bool has_bias : {false, true}) {
          const index most = kept * (experts / groups);
          MoeRoutingCase c = moe_routing_case(float_types[turn % 3], 3, experts, turn % 2 ? most : (most + 1) / 2);
          c.logits.uniform(rng, -4, 4);
          if (has_bias) c.bias = Tensor<1>(DType::f32, {experts}).uniform(rng, -0.5, 0.5);
          c.groups = groups, c.groups_kept = kept, c.group_score = value;
          c.score = turn++ % 3 == 0 ? MoeScore::softmax : MoeScore::sigmoid;
          ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
        }
}

// A group whose two best are equal beats one whose best alone is better, wherever in the group they stand.
TEST(moe_routing, two_equal_in_a_group) {
  Rng rng(9);
  for (index apart : {1, 4, 8, 15, 16, 31}) {
    MoeRoutingCase c = moe_routing_case(DType::f32, 1, 128, 4);
    c.logits.uniform(rng, -6, -5);
    for (index e : {index{32}, 32 + apart}) c.logits.set(e, 0.9);
    c.logits.set(64, 2.1);
    c.bias = Tensor<1>(DType::f32, {128});
    c.bias.fill(0);
    c.score = MoeScore::sigmoid, c.groups = 4, c.group_score = MoeGroupScore::sum_of_two;
    ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
  }
}

// Tokens beyond the pieces that are counted and placed by themselves, and beyond those that a backend takes at once.
TEST(moe_routing, many_tokens) {
  Rng rng(4);
  for (index tokens : {16, 17, 1023, 1025, 4099}) {
    MoeRoutingCase c = moe_routing_case(DType::bf16, tokens, 24, 3);
    c.logits.uniform(rng, -4, 4);
    ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
  }
}

// More of them than registers, groups of lanes, and some of the NPU's memories hold.
TEST(moe_routing, many_experts) {
  Rng rng(8);
  MoeRoutingCase c = moe_routing_case(DType::f16, 2, 5001, 9);
  c.logits.uniform(rng, -4, 4);
  c.renormalize = true;
  ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
}

// By hand: weights are softmax of 1 and 3 over 0, 1, 2 and 3's; rows lie by expert, then by token.
TEST(moe_routing, by_hand) {
  const double logits[] = {0, 3, 1, -9, 2, -1, 3, 1, 3, 2, 1, 0};
  const double ids[] = {1, 2, 2, 0, 0, 1}, rows[] = {2, 4, 5, 0, 1, 3}, tokens[] = {1, 2, 0, 2, 0, 1},
               ends[] = {2, 4, 6, 6};
  const auto expect = [&](auto&& run) {
    MoeRoutingCase c = moe_routing_case(DType::f32, 3, 4, 2);
    for (index i = 0; i < 12; ++i) c.logits.set(i, logits[i]);
    c.renormalize = true, c.scale = 2;
    ASSERT_TRUE(ok(run(c.op())));
    const double of_first[] = {2 / (1 + std::exp(-2.0)), 2 / (1 + std::exp(2.0))};
    for (index j = 0; j < 2; ++j) EXPECT_NEAR(c.weights.get(j), of_first[j], 1e-6);
    for (index k = 0; k < 6; ++k) {
      EXPECT_EQ(c.ids.get(k), ids[k]) << k;
      EXPECT_EQ(c.rows.get(k), rows[k]) << k;
      EXPECT_EQ(c.row_tokens.get(k), tokens[k]) << k;
    }
    for (index e = 0; e < 4; ++e) EXPECT_EQ(c.expert_ends.get(e), ends[e]) << e;
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

// The lower expert, and the lower group. A zero of either sign is the same number.
TEST(moe_routing, ties) {
  for (index experts : {4, 16, 40, 512})
    for (bool of_zeros : {false, true}) {
      MoeRoutingCase c = moe_routing_case(DType::f32, 3, experts, 4);
      for (index k = 0; k < c.logits.size(); ++k)
        c.logits.set(k, of_zeros ? (k % 2 ? 0.0 : -0.0) : 1 + (k % experts == experts / 2));
      if (experts > 40) c.score = MoeScore::sigmoid;  // a sum of equal numbers is rounded to one side, and far
      ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
      if (experts == 4) continue;
      c.groups = 4, c.groups_kept = 2;
      ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
    }
}

// Scores that are equal after rounding, of logits that are not: the choice is by logit.
TEST(moe_routing, logits_decide_where_there_is_no_bias) {
  MoeRoutingCase c = moe_routing_case(DType::f32, 2, 33, 5);
  for (index k = 0; k < c.logits.size(); ++k) c.logits.set(k, (k < 33 ? 40 : -200) + static_cast<double>(k * 7 % 33));
  for (MoeScore score : {MoeScore::softmax, MoeScore::sigmoid}) {
    c.score = score;
    ASSERT_NO_FATAL_FAILURE(
        compare_moe_routing(c, {.loose = "sigmoids of 40 and more are 1, those of -168 and less 0"}));
  }
}

// An infinite logit counts as the largest f32; NaN as the lowest, and its token's weights are NaN, no other's.
TEST(moe_routing, what_is_not_finite) {
  Rng rng(5);
  const double nan = std::nan("");
  for (MoeScore score : {MoeScore::softmax, MoeScore::sigmoid, MoeScore::softmax_of_chosen, MoeScore::sparsemixer})
    for (bool grouped : {false, true}) {
      MoeRoutingCase c = moe_routing_case(DType::f32, 9, 24, 3);
      c.logits.uniform(rng, -3, 3);
      const auto set = [&](index t, std::vector<index> experts, double value) {
        for (index e : experts) c.logits.set(t * 24 + e, value);
      };
      set(0, {5}, nan), set(1, {0, 23}, nan), set(2, {7, 9}, infinity), set(3, {1, 2, 3, 4}, -infinity);
      for (index e = 0; e < 24; ++e) set(4, {e}, -infinity), set(5, {e}, nan), set(6, {e}, infinity);
      for (index e = 1; e < 24; ++e) set(7, {e}, e % 2 ? -infinity : nan);
      c.score = score;
      const bool alone = score >= MoeScore::softmax_of_chosen;
      if (score == MoeScore::sparsemixer) c.jitter = grouped ? 0.05f : 0.0f;
      if (grouped && !alone) c.groups = 4, c.groups_kept = 2;
      ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c, {.nan = true}));
      if (alone) continue;
      c.bias = Tensor<1>(DType::f32, {24}).uniform(rng, -1, 1);
      c.group_score = MoeGroupScore::sum_of_two;
      for (index e : {2, 11}) c.bias.set(e, -infinity);
      c.bias.set(4, infinity), c.bias.set(17, nan);
      ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c, {.nan = true}));
    }
}

// An expert whose bias is minus infinity is taken where no other is left, and has its own score for a weight.
TEST(moe_routing, experts_that_a_bias_puts_last) {
  Rng rng(6);
  MoeRoutingCase c = moe_routing_case(DType::f32, 4, 20, 6);
  c.logits.uniform(rng, -3, 3);
  c.bias = Tensor<1>(DType::f32, {20});
  c.bias.fill(-infinity);
  for (index e : {3, 8, 15, 19}) c.bias.set(e, 0);
  c.score = MoeScore::sigmoid;
  ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
}

// Sums of scores that are next to nothing: 1e-20 counts.
TEST(moe_routing, scores_of_next_to_nothing) {
  Rng rng(7);
  MoeRoutingCase c = moe_routing_case(DType::f32, 3, 16, 4);
  c.logits.uniform(rng, -50, -40);
  c.score = MoeScore::sigmoid, c.renormalize = true;
  ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
  c.logits.fill(-infinity);
  ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c, {.loose = "all scores are 0, and so are the weights"}));
}

// Sparsemixer by hand: of 4, 3.95, 3 and -1 the second is near the first (0.05 <= 0.02 * 4), the third is not. Of those
// left 3.95 is alone. Below zero the distance counts by the size of the other logit: -2 is near -1.97, -2.2 is not.
TEST(moe_routing, sparsemixer_by_hand) {
  const double logits[] = {3, 4, -1, 3.95, -2, -9, -1.97, -2.2};
  const double near = 1 / (1 + std::exp(-0.05)), below = 1 / (1 + std::exp(-0.03));
  const auto expect = [&](auto&& run) {
    MoeRoutingCase c = moe_routing_case(DType::f32, 2, 4, 2);
    for (index i = 0; i < 8; ++i) c.logits.set(i, logits[i]);
    c.score = MoeScore::sparsemixer, c.jitter = 0.01f;
    ASSERT_TRUE(ok(run(c.op())));
    const double ids[] = {1, 3, 2, 0}, weights[] = {near, 1, below, 1};
    for (index k = 0; k < 4; ++k) {
      EXPECT_EQ(c.ids.get(k), ids[k]) << k;
      EXPECT_NEAR(c.weights.get(k), weights[k], 1e-6) << k;
    }
  };
  Reference reference;
  expect([&](const auto& op) { return run(reference, op); });
  on_every_backend([&](const std::string&, auto run) { expect(run); });
}

// Who is near is the same on every backend, at the bound itself too, and with no jitter: equals alone.
TEST(moe_routing, sparsemixer_at_its_bound) {
  Rng rng(12);
  for (float jitter : {0.0f, 0.125f, 0.01f})
    for (DType type : {DType::f32, DType::bf16}) {
      MoeRoutingCase c = moe_routing_case(type, 40, 16, 3);
      c.logits.uniform(rng, -3, 3);
      for (index t = 0; t < 40; ++t)
        for (index e = 0; e < 16; e += 2)
          c.logits.set(t * 16 + e, static_cast<double>(t - 20) / 8 * (1 - 0.25 * (e % 4)));
      c.score = MoeScore::sparsemixer, c.jitter = jitter;
      ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
    }
}

TEST(moe_routing, no_tokens) {
  for (MoeScore score : {MoeScore::softmax, MoeScore::softmax_of_chosen, MoeScore::sparsemixer}) {
    MoeRoutingCase c = moe_routing_case(DType::f16, 0, 40, 4);
    c.score = score;
    ASSERT_NO_FATAL_FAILURE(compare_moe_routing(c));
  }
}

TEST(moe_routing, refuses_what_the_contract_does_not_cover) {
  MoeRoutingCase c = moe_routing_case(DType::f32, 3, 24, 4);
  c.logits.fill(0);
  const Refused refused(c.op());
  Tensor<1> seven(DType::f32, {7}), half(DType::f16, {24}), bias(DType::f32, {24}), few(DType::i32, {11});
  bias.fill(0);
  Tensor<2> wide(DType::f32, {3, 25}), wide_ids(DType::i32, {3, 25}), none(DType::f32, {3, 0}),
      other(DType::i32, {3, 5});
  Tensor<2> long_ids(DType::i64, {3, 4}), codes(DType::i8, {3, 24}), four(DType::f32, {4, 4});
  refused([&](auto& op) { op.logits = codes; }, {"logits", "i8", "f32"});
  refused([&](auto& op) { op.bias = seven; }, {"bias", "7", "24"});
  refused([&](auto& op) { op.bias = half; }, {"bias", "f16", "f32"});
  refused([&](auto& op) { op.weights = wide; }, {"weights", "25", "1..24", "experts"});
  refused([&](auto& op) { op.weights = none; }, {"weights", "0", "1..24"});
  refused([&](auto& op) { op.weights = four; }, {"weights", "4", "3"});
  refused([&](auto& op) { op.weights.dtype = DType::i32; }, {"weights", "i32", "f32"});
  refused([&](auto& op) { op.ids = other; }, {"ids", "[3, 5]", "[3, 4]"});
  refused([&](auto& op) { op.ids = long_ids; }, {"ids", "i64", "i32"});
  refused([&](auto& op) { op.rows = other; }, {"rows", "[3, 5]", "[3, 4]"});
  refused([&](auto& op) { op.rows = long_ids; }, {"rows", "i64", "i32"});
  refused([&](auto& op) { op.rows = c.ids; }, {"ids", "overlaps", "rows"});
  refused([&](auto& op) { op.row_tokens = few; }, {"row_tokens", "11", "12"});
  refused([&](auto& op) { op.row_tokens.dtype = DType::f32; }, {"row_tokens", "f32", "i32"});
  refused([&](auto& op) { op.expert_ends = few; }, {"expert_ends", "11", "24"});
  refused([&](auto& op) { op.expert_ends.dtype = DType::f32; }, {"expert_ends", "f32", "i32"});
  refused([&](auto& op) { op.expert_ends = {}; }, {"expert_ends", "missing"});
  refused([&](auto& op) { op.score = static_cast<MoeScore>(4); }, {"score", "4", "softmax_of_chosen or sparsemixer"});
  refused([&](auto& op) { op.group_score = static_cast<MoeGroupScore>(2); }, {"group_score", "2", "sum_of_two"});
  refused([&](auto& op) { op.groups = 0; }, {"groups", "0", "24"});
  refused([&](auto& op) { op.groups = -4; }, {"groups", "-4", "24"});
  refused([&](auto& op) { op.groups = 5; }, {"groups", "5", "24"});
  refused([&](auto& op) { op.groups_kept = 0; }, {"groups_kept", "0", "1"});
  refused([&](auto& op) { op.groups_kept = 2; }, {"groups_kept", "2", "1"});
  refused([&](auto& op) { op.groups = 8; }, {"groups_kept", "1", "3", "4", "top_k"});
  refused([&](auto& op) { op.groups = 24, op.groups_kept = 24, op.group_score = MoeGroupScore::sum_of_two; },
          {"groups", "sum_of_two", "2"});
  refused([&](auto& op) { op.groups = 4, op.groups_kept = 2, op.score = MoeScore::softmax_of_chosen; },
          {"groups", "4", "1", "softmax_of_chosen"});
  refused([&](auto& op) { op.bias = bias, op.score = MoeScore::softmax_of_chosen; }, {"bias", "softmax_of_chosen"});
  refused([&](auto& op) { op.bias = bias, op.score = MoeScore::sparsemixer; }, {"bias", "sparsemixer"});
  refused([&](auto& op) { op.groups = 4, op.groups_kept = 2, op.score = MoeScore::sparsemixer; },
          {"groups", "4", "1", "sparsemixer"});
  refused([&](auto& op) { op.score = MoeScore::sparsemixer, op.jitter = -0.5f; }, {"jitter", "-0.5", "0 or more"});
  refused([&](auto& op) { op.jitter = 0.5f; }, {"jitter", "0.5", "sparsemixer"});
  refused([&](auto& op) { op.score = MoeScore::sparsemixer, op.jitter = std::nanf(""); }, {"jitter", "nan"});
  refused([&](auto& op) { op.scale = std::nanf(""); }, {"scale", "nan"});
  refused([&](auto& op) { op.scale = std::numeric_limits<float>::infinity(); }, {"scale", "inf"});
  refused.allows([&](auto& op) { op.groups = 6, op.groups_kept = 1; });
  refused.allows([&](auto& op) { op.bias = bias, op.group_score = MoeGroupScore::sum_of_two; });
  refused.allows([&](auto& op) { op.scale = -1; });
  refused.allows([&](auto& op) { op.score = MoeScore::sparsemixer, op.jitter = 0.5f; });
}

}  // namespace
}  // namespace inlay::test
