#include <inlay/ops/flash_attention.hpp>

#include "tests/incre_flash_attention/case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(IncreFlashAttention);

namespace {

TEST(incre_flash_attention, head_dims) {
  Rng rng(1);
  std::vector<std::pair<index, index>> dims;
  for (index dim : head_dims) dims.push_back({dim, dim});
  for (const auto& pair : {std::pair<index, index>{192, 128}, {576, 512}, {7, 1}, {16, 48}, {32, 16}, {48, 32}})
    dims.push_back(pair);
  int turn = 0;
  for (const auto& [dim, v_dim] : dims)
    for (index group : {1, 3, 8}) {
      const DType type = float_types[turn % 3], kv = kv_dtypes[turn % 4];
      const Case c = make({.batch = 2, .keys = 70, .kv_heads = 1, .group = group, .dim = dim, .v_dim = v_dim}, rng,
                          type, kv, float_types[(turn + 1) % 3], layouts[turn % 3], turn % 2);
      ++turn;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(incre_flash_attention, lengths_around_the_tiles_and_splits) {
  Rng rng(2);
  for (index slots : lengths_around(cpu::decode_split, 3 * cpu::decode_split + 1)) {
    if (slots == 0) continue;
    Case c = make({.batch = 1, .keys = slots, .kv_heads = 1, .group = 3, .dim = 9, .v_dim = 17}, rng, DType::f32,
                  kv_dtypes[static_cast<std::size_t>(slots % 4)]);
    ASSERT_NO_FATAL_FAILURE(compare(c));
    c.causal = true, c.left = 5;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// What is read of all kv heads before the next: as many tokens as K of one token leaves room for.
TEST(incre_flash_attention, lengths_around_the_stretches) {
  Rng rng(16);
  constexpr index dim = 64;
  for (index tokens = cpu::row_tile; tokens <= cpu::key_tile; tokens *= 2) {
    const index heads = std::min<index>(cpu::stretch_bytes / tokens / (4 * dim), cpu::max_rows);
    SCOPED_TRACE(describe("tokens", tokens, "heads", heads));
    for (index keys : {tokens - 1, tokens, tokens + 1, cpu::key_tile + tokens + 5}) {
      Case c = make({.keys = keys, .kv_heads = heads, .group = 1, .dim = dim, .v_dim = 20}, rng);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
  }
}

// One head, and keys enough for the NPU backend to ask for prices, and to cut them for its cores.
TEST(incre_flash_attention, a_long_cache_of_one_head) {
  Rng rng(21);
  for (DType type : {DType::f32, DType::f16})
    for (DType kv : {DType::f16, DType::i8}) {
      const index keys = kv == DType::i8 ? 16600 : 8300;
      Case c = make({.keys = keys, .kv_heads = 1, .group = 4, .dim = 64, .v_dim = 64}, rng, type, kv, DType::f32);
      drift(c, type == DType::f32);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(incre_flash_attention, no_keys_give_zero) {
  Rng rng(4);
  Case c = make({.batch = 3, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.lengths = list_of(DType::i32, {0, 20, 15});
  c.left_padding = true;
  c.padding = 6;  // leaves room for 14 keys
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < got.out.memory.size(); ++i) ASSERT_EQ(got.out.memory.get(i), 0);
    for (index i = 0; i < got.lse.size(); ++i) ASSERT_EQ(got.lse.get(i), -HUGE_VAL);
  });
}

// The sink is all that its denominator has.
TEST(incre_flash_attention, a_row_without_keys_has_its_sink_as_lse) {
  Rng rng(14);
  Case start = make({.batch = 2, .keys = 20, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
  start.lengths = list_of(DType::i32, {0, 20});
  start.sinks = Tensor<1>(DType::f32, {2});
  start.sinks.set(0, 1.5), start.sinks.set(1, -HUGE_VAL);
  ASSERT_NO_FATAL_FAILURE(compare(start));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < 16; ++i) ASSERT_EQ(got.out.memory.get(i), 0);
    EXPECT_EQ(got.lse.get(0), 1.5);
    EXPECT_EQ(got.lse.get(1), -HUGE_VAL);
  });
}

TEST(incre_flash_attention, left_padding_reads_the_slots_it_should) {
  Rng rng(5);
  Case c = make({.keys = 20, .dim = 8, .v_dim = 8}, rng);
  c.lengths = Tensor<1>(DType::i32, {1}).fill(1);
  c.left_padding = true;
  for (index padding : {-4, 0, 3, 19}) {
    c.padding = padding;
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d)
        ASSERT_EQ(got.out.get(0, 0, 0, d), c.v.get(0, 19 - std::max<index>(padding, 0), 0, d));
    });
  }
}

TEST(incre_flash_attention, masked_values_never_reach_the_output) {
  Rng rng(6);
  constexpr index split = cpu::decode_split, slots = 2 * split + 40, length = slots - 10;
  for (DType kv : {DType::f32, DType::f16}) {
    Case clean = make({.keys = slots, .kv_heads = 1, .group = 3, .dim = 10, .v_dim = 12}, rng, DType::f32, kv);
    clean.lengths = Tensor<1>(DType::i32, {1}).fill(length);
    clean.mask = Tensor<3>(DType::boolean, {1, 1, slots}).fill(0);
    const std::vector<index> masked{0, 77, split - 1, split, 2 * split, length - 1};
    for (index j : masked) clean.mask.set(j, 1);
    const Expected<Case> expected(clean);
    ASSERT_TRUE(expected.ran());
    for (double bad : {nan, HUGE_VAL, -HUGE_VAL}) {
      Case poisoned = clean;
      const auto spoil = [&](index j) {
        for (index d = 0; d < 12; ++d) {
          if (d < 10) poisoned.k.set(0, j, 0, d, bad);
          poisoned.v.set(0, j, 0, d, bad);
        }
      };
      for (index j : masked) spoil(j);
      for (index j = length; j < slots; ++j) spoil(j);
      on_every_backend([&](const std::string&, auto run) {
        Case got = poisoned;
        ASSERT_TRUE(ok(run(got.op())));
        expected.compare(got);
      });
    }
  }
}

// A key that one query alone sees, by every way of not seeing it; of its V the last dim is not finite.
TEST(incre_flash_attention, values_that_one_query_sees_reach_no_other) {
  constexpr index keys = 2 * cpu::key_tile + 3, queries = 3, dim = 20;
  for (std::string way : {"causal", "left", "pse", "mask", "scale"}) {
    SCOPED_TRACE(way);
    Rng rng(17);
    const bool quantized = way == "scale", first = way == "left";
    Case clean = make({.queries = queries, .keys = keys, .dim = 6, .v_dim = dim}, rng, DType::f32,
                      quantized ? DType::i8 : DType::f16);
    // The last query sees the last key alone, or the first one the first.
    const index key = first ? 0 : keys - 1, query = first ? 0 : queries - 1;
    clean.causal = way == "causal" || quantized;
    if (first) clean.left = keys - queries;
    if (way == "pse") clean.pse = Tensor<4>(DType::f32, {1, 1, queries, keys}).uniform(rng);
    if (way == "mask") clean.mask = Tensor<3>(DType::boolean, {1, queries, keys}).fill(0);
    if (quantized) clean.v_scale = Tensor<4>(DType::f32, {1, keys, 1, 1}).fill(0.01);
    for (index i = 0; i < queries; ++i) {
      if (i != query && way == "pse") clean.pse.set(i * keys + key, -HUGE_VAL);
      if (i != query && way == "mask") clean.mask.set(i * keys + key, 1);
    }
    const Expected<Case> expected(clean);
    ASSERT_TRUE(expected.ran());
    Case spoiled = clean;
    if (quantized)
      spoiled.v_scale.set(key, nan);
    else
      spoiled.v.set(0, key, 0, dim - 1, nan);
    on_every_backend([&](const std::string&, auto run) {
      Case got = spoiled;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = quantized ? 0 : dim - 1; d < dim; ++d) {
        ASSERT_TRUE(std::isnan(got.out.get(0, query, 0, d)));
        got.out.set(0, query, 0, d, expected.result().out.get(0, query, 0, d));
      }
      expected.compare(got);
    });
  }
}

TEST(incre_flash_attention, lse_may_be_left_out) {
  Rng rng(18);
  Case c = make({.queries = 3, .keys = 70, .kv_heads = 2, .group = 2, .dim = 6, .v_dim = 5}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case with = c, without = c;
    ASSERT_TRUE(ok(run(with.op())));
    IncreFlashAttention<Host> op = without.op();
    op.lse = {};
    ASSERT_TRUE(ok(run(op)));
    expect_equal(without.out.memory, with.out.memory);
  });
}

TEST(incre_flash_attention, a_visible_nan_gives_nan) {
  Rng rng(8);
  constexpr index split = cpu::decode_split;
  Case c = make({.keys = 2 * split + 70, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.k.set(0, split + 6, 1, 2, nan);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index h = 0; h < 4; ++h) ASSERT_EQ(std::isnan(got.out.get(0, 0, h, 1)), h >= 2);
  });
}

TEST(incre_flash_attention, agrees_with_flash_attention) {
  Rng rng(9);
  Case c = make({.batch = 2, .queries = 3, .keys = 100, .kv_heads = 2, .group = 3, .dim = 32, .v_dim = 16}, rng);
  c.causal = true;
  Case flash = c;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  ASSERT_TRUE(ok(run(reference, FlashAttention<Host>{.q = flash.q.view(),
                                                     .k = flash.k.view(),
                                                     .v = flash.v.view(),
                                                     .out = flash.out.view(),
                                                     .lse = flash.lse,
                                                     .causal = true})));
  expect_equal(c.out.memory, flash.out.memory);
  expect_equal(c.lse, flash.lse);
}

TEST(incre_flash_attention, subnormals) {
  Rng rng(20);
  for (DType type : float_types)
    for (index slots : subnormal_sizes)
      for (bool small_v : {false, true}) {
        SCOPED_TRACE(small_v ? "small v" : "small q and k");
        Case c = make({.keys = slots, .group = 3, .dim = 20, .v_dim = 24}, rng, type, type);
        if (small_v)
          subnormals(c.v.memory, rng);
        else
          subnormals(c.q.memory, rng, slots % 2), subnormals(c.k.memory, rng);
        const Expected<Case> expected(c, small_v ? smallest_normal(type) : 1);
        with_and_without_flushing(c, [&](const Case&, const Case& got, double lost) {
          // For each key an operand, a product and a sum, which round to the least number or are lost.
          expected.compare(got, {.lost = 3 * static_cast<double>(slots) * (lost + underflow(DType::f32))});
        });
      }
}

}  // namespace
}  // namespace inlay::test
