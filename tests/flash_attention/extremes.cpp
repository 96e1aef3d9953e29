// What is masked, empty, huge, not finite or nearly zero.
#include "tests/flash_attention/case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
namespace {

// What may stand in K and V, with products of both kinds.
std::vector<std::pair<double, AttentionCompute>> each_bad(const std::vector<double>& values) {
  std::vector<std::pair<double, AttentionCompute>> all;
  for (const auto compute : {AttentionCompute::exact_float, AttentionCompute::bf16_products})
    for (double value : values) all.emplace_back(value, compute);
  return all;
}

TEST(flash_attention, masked_values_never_reach_the_output) {
  Rng rng(6);
  for (const auto& [bad, in] : each_bad({std::nan(""), HUGE_VAL, -HUGE_VAL})) {
    SCOPED_TRACE(describe(bad, in == AttentionCompute::bf16_products));
    Case clean = make({.queries = 70, .keys = 130, .kv_heads = 1, .group = 2, .dim = 12, .v_dim = 20}, rng);
    if (in == AttentionCompute::bf16_products) clean = in_bf16(clean);
    clean.mask = {DType::boolean, {1, 1, 70, 130}};
    clean.mask.fill(0);
    // Key 3 is masked for all rows, key 100 for the odd ones only.
    for (index i = 0; i < 70; ++i)
      clean.mask.set(i * 130 + 3, 1), clean.mask.set(i * 130 + 100, static_cast<double>(i % 2));
    clean.kv_lens = Tensor<1>(DType::i32, {1}).fill(120);
    const Expected<Case> expected(clean);
    ASSERT_TRUE(expected.ran());
    Case poisoned = clean;
    for (index j : {index{3}, index{100}, index{120}, index{129}})
      for (index d = 0; d < 20; ++d) {
        if (d < 12 && j != 100) poisoned.k.set(0, j, 0, d, bad);
        poisoned.v.set(0, j, 0, d, bad);
      }
    everywhere(clean, [&](const std::string&, auto run) {
      Case got = poisoned;
      ASSERT_TRUE(ok(run(got.op())));
      for (index i = 0; i < 70; ++i)
        for (index h = 0; h < 2; ++h)
          for (index d = 0; d < 20; ++d) {
            const double g = got.out.get(0, i, h, d);
            if (i % 2) continue;
            ASSERT_FALSE(std::isfinite(g)) << i << " " << h << " " << d;
            got.out.set(0, i, h, d, expected.result().out.get(0, i, h, d));
          }
      expected.compare(got);
    });
  }
}

// A key that one query alone sees, by every way of not seeing it; of its V the last dim is not finite. Few rows read
// V where it lies, many a copy.
TEST(flash_attention, values_that_one_query_sees_reach_no_other) {
  constexpr index keys = 2 * cpu::key_tile + 3, dim = 20;
  for (index queries : {index{3}, cpu::shared_unit_rows + 5})
    for (std::string way : {"causal", "right", "left", "bias", "mask", "packed mask"}) {
      SCOPED_TRACE(describe(way, queries));
      Rng rng(17);
      Case clean = make({.queries = queries, .keys = keys, .dim = 6, .v_dim = dim}, rng, DType::f32, DType::f16);
      // The last query sees the last key alone, or the first one the first.
      const bool first = way == "left";
      const index key = first ? 0 : keys - 1, query = first ? 0 : queries - 1;
      clean.causal = way == "causal";
      if (way == "right") clean.right = 0;
      if (first) clean.left = keys - queries;
      if (way == "bias") clean.bias = Tensor<4>(DType::f32, {1, 1, queries, keys}).uniform(rng);
      if (way == "mask") clean.mask = Tensor<4>(DType::boolean, {1, 1, queries, keys}).fill(0);
      if (way == "packed mask") {
        clean.packed_mask = Tensor<1>(DType::u8, {(queries * keys + 7) / 8}).fill(255);
        clean.mask_indptr = list_of(DType::i32, {0, clean.packed_mask.size()});
      }
      for (index i = 0; i < queries; ++i) {
        if (i == query) continue;
        const index pair = i * keys + key;
        if (way == "bias") clean.bias.set(pair, -HUGE_VAL);
        if (way == "mask") clean.mask.set(pair, 1);
        if (way == "packed mask") clean.packed_mask.data<unsigned char>()[pair / 8] &= ~(1 << pair % 8);
      }
      for (const auto& [bad, in] : each_bad({nan, HUGE_VAL})) {
        SCOPED_TRACE(describe(bad, in == AttentionCompute::bf16_products));
        Case spoiled = in == AttentionCompute::bf16_products ? in_bf16(clean) : clean;
        const Expected<Case> expected(spoiled);
        ASSERT_TRUE(expected.ran());
        spoiled.v.set(0, key, 0, dim - 1, bad);
        everywhere(spoiled, [&](const std::string&, auto run) {
          Case got = spoiled;
          ASSERT_TRUE(ok(run(got.op())));
          ASSERT_FALSE(std::isfinite(got.out.get(0, query, 0, dim - 1)));
          got.out.set(0, query, 0, dim - 1, expected.result().out.get(0, query, 0, dim - 1));
          expected.compare(got);
        });
      }
    }
}

TEST(flash_attention, lse_may_be_left_out) {
  Rng rng(18);
  Case c = make({.queries = 3, .keys = 70, .kv_heads = 2, .group = 2, .dim = 6, .v_dim = 5}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case with = c, without = c;
    ASSERT_TRUE(ok(run(with.op())));
    FlashAttention<Host> op = without.op();
    op.lse = {};
    ASSERT_TRUE(ok(run(op)));
    expect_equal(without.out.memory, with.out.memory);
  });
}

TEST(flash_attention, a_visible_nan_or_infinite_key_spoils_its_rows_only) {
  Rng rng(7);
  for (double bad : {std::nan(""), HUGE_VAL}) {
    Case c = make({.queries = 9, .keys = 9, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
    for (index i = 0; i < 9; ++i) c.q.set(0, i, 0, 0, 1);
    c.k.set(0, 5, 0, 0, bad);
    c.causal = true;
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index i = 0; i < 9; ++i) {
        ASSERT_EQ(std::isnan(got.out.get(0, i, 0, 3)), i >= 5) << i;
        ASSERT_EQ(std::isnan(got.lse.get(i)), i >= 5) << i;
      }
    });
  }
}

TEST(flash_attention, rows_that_see_nothing) {
  Rng rng(8);
  Case c = make({.queries = 10, .keys = 4, .kv_heads = 1, .group = 1, .dim = 8, .v_dim = 8}, rng);
  c.causal = true;  // rows 0..5 stand before the first key
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < 6; ++i) {
      for (index d = 0; d < 8; ++d) ASSERT_EQ(got.out.get(0, i, 0, d), 0);
      ASSERT_EQ(got.lse.get(i), -HUGE_VAL);
    }
    for (index i = 6; i < 10; ++i) ASSERT_TRUE(std::isfinite(got.lse.get(i)));
  });
}

// The sink is all that its denominator has.
TEST(flash_attention, a_row_without_keys_has_its_sink_as_lse) {
  Rng rng(15);
  Case start = make({.queries = 10, .keys = 4, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
  start.causal = true;  // rows 0..5 stand before the first key
  start.sinks = Tensor<1>(DType::f32, {2});
  start.sinks.set(0, 1.5), start.sinks.set(1, -HUGE_VAL);
  ASSERT_NO_FATAL_FAILURE(compare(start));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < 6; ++i) {
      for (index h = 0; h < 2; ++h)
        for (index d = 0; d < 8; ++d) ASSERT_EQ(got.out.get(0, i, h, d), 0);
      EXPECT_EQ(got.lse.get(2 * i), 1.5);
      EXPECT_EQ(got.lse.get(2 * i + 1), -HUGE_VAL);
    }
  });
}

// One key wins by far: the output is its V, whatever the size of the logits.
TEST(flash_attention, huge_logits) {
  Rng rng(9);
  for (double size : {1e5, -1e5}) {
    Case c = make({.queries = 2, .keys = 100, .kv_heads = 1, .group = 1, .dim = 16, .v_dim = 16}, rng);
    c.scale = 1;
    for (index d = 0; d < 16; ++d) {
      for (index i = 0; i < 2; ++i) c.q.set(0, i, 0, d, d == 0);
      for (index j = 0; j < 100; ++j) c.k.set(0, j, 0, d, d == 0 ? size + 50.0 * (j == 77) : 0);
    }
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 16; ++d) ASSERT_NEAR(got.out.get(0, 1, 0, d), c.v.get(0, 77, 0, d), 1e-6);
      ASSERT_NEAR(got.lse.get(0), size + 50, 0.02);
    });
  }
}

TEST(flash_attention, subnormals) {
  Rng rng(20);
  for (DType type : float_types)
    for (index keys : subnormal_sizes)
      for (bool small_v : {false, true}) {
        SCOPED_TRACE(small_v ? "small v" : "small q and k");
        Case c = make({.queries = 3, .keys = keys, .kv_heads = 1, .group = 2, .dim = 20, .v_dim = 24}, rng, type, type);
        if (small_v)
          subnormals(c.v.memory, rng, keys % 2);
        else
          subnormals(c.q.memory, rng, keys % 2), subnormals(c.k.memory, rng);
        const Expected<Case> expected(c, small_v && keys % 2 == 0 ? smallest_normal(type) : 1);
        with_and_without_flushing(c, [&](const Case&, const Case& got, double lost) {
          // For each key an operand, a product and a sum, which round to the least number or are lost.
          expected.compare(got, {.lost = 3 * static_cast<double>(keys) * (lost + underflow(DType::f32))});
        });
      }
}

// How many keys without a weight follow in the sum depends on the chunk: -0 + 0 is 0.
TEST(flash_attention, sums_that_vanish_are_zero_without_a_sign) {
  constexpr index keys = cpu::shared_unit_rows + 9;
  Rng rng(23);
  Case c = make({.queries = keys, .keys = keys, .kv_heads = 1, .group = 1, .dim = 2, .v_dim = 3}, rng);
  c.causal = true;
  c.scale = 1;
  c.k.memory.fill(0), c.v.memory.fill(0);
  for (index i = 0; i < keys; ++i) c.q.set(0, i, 0, 0, 1);
  c.k.set(0, 0, 0, 0, 2);
  for (index j = 1; j < keys; ++j) c.v.set(0, j, 0, 1, -std::numeric_limits<float>::denorm_min());  // times exp(-2)
  on_every_cpu([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < keys; ++i)
      for (index d = 0; d < 3; ++d) {
        ASSERT_EQ(got.out.get(0, i, 0, d), 0) << i << ' ' << d;
        ASSERT_FALSE(std::signbit(got.out.get(0, i, 0, d))) << i << ' ' << d;
      }
  });
}

TEST(flash_attention, softcaps_of_every_size) {
  compare_extreme_softcaps([](const Shape& shape, Rng& rng) { return make(shape, rng); });
}

}  // namespace
}  // namespace inlay::test
