// One option at a time over three splits of the keys.
#include "tests/attention/contract.hpp"

namespace inlay::test {
namespace {

index heads_of(const ProblemShape& shape) { return shape.kv_heads * shape.group; }

TEST_P(Attention, splits_plain) {
  for (DType kv : kv_dtypes) ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [](AttentionCase&, Rng&) {}));
}

TEST_P(Attention, lengths_around_the_tiles_and_splits) {
  Rng rng(2);
  for (index keys : lengths_around(contract().split, 3 * contract().split + 1)) {
    if (keys == 0) continue;
    AttentionCase c = problem({.keys = keys, .kv_heads = 1, .group = 3, .dim = 9, .v_dim = 17}, rng, DType::f32,
                              kv_dtypes[static_cast<std::size_t>(keys % 4)]);
    ASSERT_NO_FATAL_FAILURE(compare(c));
    c.causal = true, c.left = 5;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST_P(Attention, splits_beside_a_short_sequence) {
  const index keys = contract().three.keys;
  for (index length : lengths_around(contract().split, keys)) {
    SCOPED_TRACE(length);
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](AttentionCase& c, Rng&) {
      c.kv_lens = list_of(DType::i64, {keys - 1, length});
      c.causal = true;
    }));
  }
}

// The largest score moves on by more than exp can take, from tile to tile and from split to split.
TEST_P(Attention, splits_of_huge_scores) {
  for (DType kv : {DType::f32, DType::i8})
    ASSERT_NO_FATAL_FAILURE(
        over_three_splits(kv, [&](AttentionCase& c, Rng&) { c.scale = kv == DType::i8 ? 1000.0f : 100.0f; }));
}

TEST_P(Attention, splits_sinks) {
  const index heads = heads_of(contract().three);
  for (double size : {1.0, 9.0, -30.0})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](AttentionCase& c, Rng& rng) {
      c.sinks = random_sinks(heads, rng);
      for (index h = 0; h < heads; ++h) c.sinks.set(h, c.sinks.get(h) + size);
    }));
}

// ALiBi, softcap, both.
TEST_P(Attention, splits_alibi_softcap_and_their_orders) {
  const ProblemShape& three = contract().three;
  for (BiasOrder order : bias_orders)
    for (int what : {1, 2, 3})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(what == 3 ? DType::f32 : DType::i8, [&](AttentionCase& c, Rng& rng) {
        c.order = order;
        if (what & 1) c.alibi = slight_slopes(heads_of(three), three.keys, rng);
        if (what & 2) c.softcap = 2;
      }));
}

// Scales of tokens lie in the tile where their keys do, and a window begins within one.
TEST_P(Attention, splits_windows) {
  const ProblemShape& three = contract().three;
  for (index left : windows_around(contract().split, three.keys))
    for (bool causal : {false, true}) {
      if (!causal && contract().max_queries == 1) continue;  // the one query stands at the last key
      const auto windowed = [&](AttentionCase& c, Rng&) {
        c.left = left, c.causal = causal;
        c.kv_lens = list_of(DType::i32, {three.keys - 3, contract().split + 1});
      };
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, windowed));
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::i8, [&](AttentionCase& c, Rng& rng) {
        windowed(c, rng);
        c.k_scale = Tensor<4>(DType::f32, {2, three.keys, three.kv_heads, 1}).uniform(rng, 0.002, 0.008);
        c.v_scale = Tensor<4>(DType::f32, {2, three.keys, 1, 1}).uniform(rng, 0.002, 0.008);
      }));
    }
}

// Rows of a kv head up to where heads share a task, above, and more than a task has: Falcon's 71 too.
TEST_P(Attention, splits_of_many_rows) {
  Rng rng(8);
  for (index group : contract().groups)
    for (DType kv : {DType::f16, DType::i8}) {
      AttentionCase c = problem({.batch = 2,
                                 .queries = up_to(3),
                                 .keys = 2 * contract().split + 9,
                                 .kv_heads = contract().max_queries > 3 ? 1 : 2,
                                 .group = group,
                                 .dim = 3,
                                 .v_dim = 2},
                                rng, DType::f32, kv);
      c.causal = true;
      drift(c, kv == DType::f16);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST_P(AttentionPairs, splits_biases_softcap_and_their_orders) {
  const ProblemShape& three = contract().three;
  for (BiasOrder order : bias_orders)
    for (int what : {1, 3, 5, 7})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](AttentionCase& c, Rng& rng) {
        c.order = order;
        c.bias = {DType::bf16, {what & 2 ? 2 : 1, heads_of(three), three.queries, three.keys}};
        c.bias.uniform(rng, -3, 3);
        if (what & 2) c.alibi = slight_slopes(heads_of(three), three.keys, rng);
        if (what & 4) c.softcap = 2;
      }));
}

TEST_P(AttentionPairs, splits_masks) {
  const ProblemShape& three = contract().three;
  const index split = contract().split;
  for (bool each_query : {false, true})
    for (DType kv : {DType::f16, DType::i8})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [&](AttentionCase& c, Rng& rng) {
        const index heads = contract().masks_of_heads && !each_query ? heads_of(three) : 1;
        c.mask = {DType::boolean, {heads > 1 || each_query ? 2 : 1, heads, each_query ? three.queries : 1, three.keys}};
        c.mask.integers(rng, 0, 1);
        // A whole split without a key, and a tile.
        for (index i = 0; i < c.mask.size(); ++i) {
          const index j = i % three.keys, row = i / three.keys;
          if (row == 0 && j >= split && j < 2 * split) c.mask.set(i, 1);
          if (row == 1 && j < cpu::key_tile) c.mask.set(i, 1);
        }
      }));
}

TEST_P(AttentionPairs, splits_scales_and_offsets) {
  const ProblemShape& three = contract().three;
  for (bool tokens : {false, true})
    for (bool offsets : {false, true})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::i8, [&](AttentionCase& c, Rng& rng) {
        const auto quant = [&](index width) {
          return tokens ? Tensor<4>(DType::f32, {2, three.keys, 1, 1}) : Tensor<4>(DType::f32, {1, 1, 1, width});
        };
        const index dim = c.k.view_extents()[3];
        c.k_scale = quant(dim).uniform(rng, 0.002, 0.008);
        c.v_scale = quant(three.v_dim).uniform(rng, 0.002, 0.004);
        if (!offsets) return;
        c.k_offset = quant(dim).uniform(rng, -20, 20);
        c.v_offset = quant(three.v_dim).uniform(rng, -20, 20);
      }));
}

}  // namespace
}  // namespace inlay::test
