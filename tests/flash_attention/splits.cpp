// One option at a time over three splits of the keys, the last one begun by a few.
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::prompt_split;
constexpr Shape three{
    .batch = 2, .queries = 3, .keys = 2 * split + cpu::key_tile + 3, .kv_heads = 1, .group = 2, .dim = 6, .v_dim = 5};
constexpr index all_heads = three.kv_heads * three.group;

// A case of three splits in which the largest scores come last, or first, and what `change` makes of it.
template <class Change> void over_three_splits(DType kv, Change&& change) {
  for (bool rising : {false, true}) {
    Rng rng(rising);
    Case c = make(three, rng, DType::f32, kv);
    drift(c, rising);
    change(c, rng);
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(flash_attention, splits_plain) {
  for (DType kv : kv_dtypes) ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [](Case&, Rng&) {}));
}

TEST(flash_attention, splits_beside_a_short_sequence) {
  for (index length : lengths_around(split, three.keys)) {
    SCOPED_TRACE(length);
    const auto beside_a_long_one = [&](Case& c, Rng&) {
      c.kv_lens = list_of(DType::i64, {three.keys - 1, length});
      c.causal = true;
    };
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, beside_a_long_one));
  }
}

TEST(flash_attention, splits_through_a_block_table) {
  for (index block : {index{24}, split + 7})
    for (DType kv : {DType::f16, DType::i8})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [&](Case& c, Rng& rng) {
        c.kv_lens = list_of(DType::i32, {split - 1, three.keys});
        if (kv == DType::i8) {
          c.k_scale = Tensor<4>(DType::f32, {2, three.keys, 1, 1}).uniform(rng, 0.002, 0.008);
          c.v_offset = Tensor<4>(DType::f32, {2, three.keys, 1, 1}).uniform(rng, -20, 20);
        }
        page(c, block, rng);
      }));
}

TEST(flash_attention, splits_scales_and_offsets) {
  for (bool tokens : {false, true})
    for (bool offsets : {false, true})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::i8, [&](Case& c, Rng& rng) {
        const auto quant = [&](index width) {
          return tokens ? Tensor<4>(DType::f32, {2, three.keys, 1, 1}) : Tensor<4>(DType::f32, {1, 1, 1, width});
        };
        c.k_scale = quant(three.dim).uniform(rng, 0.002, 0.008);
        c.v_scale = quant(three.v_dim).uniform(rng, 0.002, 0.004);
        if (!offsets) return;
        c.k_offset = quant(three.dim).uniform(rng, -20, 20);
        c.v_offset = quant(three.v_dim).uniform(rng, -20, 20);
      }));
}

// The largest score moves on by more than exp can take, from tile to tile and from split to split.
TEST(flash_attention, splits_of_huge_scores) {
  for (DType kv : {DType::f32, DType::i8})
    ASSERT_NO_FATAL_FAILURE(
        over_three_splits(kv, [&](Case& c, Rng&) { c.scale = kv == DType::i8 ? 1000.0f : 100.0f; }));
}

TEST(flash_attention, splits_sinks) {
  for (double size : {1.0, 9.0, -30.0})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](Case& c, Rng& rng) {
      c.sinks = random_sinks(all_heads, rng);
      for (index h = 0; h < all_heads; ++h) c.sinks.set(h, c.sinks.get(h) + size);
    }));
}

TEST(flash_attention, splits_biases_softcap_and_their_orders) {
  for (BiasOrder order : bias_orders)
    for (int what : {1, 2, 5, 6, 7})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](Case& c, Rng& rng) {
        c.order = order;
        if (what & 1) {
          c.bias = {DType::bf16, {what & 2 ? 2 : 1, all_heads, three.queries, three.keys}};
          c.bias.uniform(rng, -3, 3);
        }
        if (what & 2) c.alibi = slight_slopes(all_heads, three.keys, rng);
        if (what & 4) c.softcap = 2;
      }));
}

TEST(flash_attention, splits_masks) {
  for (bool of_heads : {false, true})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f16, [&](Case& c, Rng& rng) {
      c.mask = {DType::boolean, {2, of_heads ? all_heads : 1, of_heads ? 1 : three.queries, three.keys}};
      c.mask.integers(rng, 0, 1);
      // A whole split without a key, and a tile.
      for (index i = 0; i < c.mask.size(); ++i) {
        const index j = i % three.keys, row = i / three.keys;
        if (row == 0 && j >= split && j < 2 * split) c.mask.set(i, 1);
        if (row == 1 && j < cpu::key_tile) c.mask.set(i, 1);
      }
    }));
  ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](Case& c, Rng& rng) {
    c.kv_lens = list_of(DType::i32, {three.keys, split + 5});
    add_packed_mask(c, {three.queries, three.queries}, {three.keys, split + 5}, rng);
  }));
}

TEST(flash_attention, splits_windows) {
  for (index window : windows_around(split, three.keys))
    for (int sides : {1, 2, 3})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](Case& c, Rng&) {
        if (sides & 1) c.left = window;
        if (sides & 2) c.right = window;
        c.q_start = list_of(DType::i32, {split - 2, 2 * split - 1});
      }));
}

TEST(flash_attention, splits_of_packed_sequences) {
  Rng rng(7);
  for (DType kv : {DType::f32, DType::i8})
    for (bool causal : {false, true}) {
      const std::vector<index> queries{2, 0, 3, 1}, keys{2 * split + 5, 4, 3, split + 1};
      Case c = make({.queries = 7, .keys = 3 * split + 15, .kv_heads = 2, .group = 2, .dim = 5, .v_dim = 4}, rng,
                    DType::f32, kv);
      drift(c, causal);
      c.q_indptr = list_of(DType::i64, begins_of(queries));
      c.kv_indptr = list_of(DType::i64, begins_of(keys));
      c.causal = causal;
      c.unwritten = 1;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Rows of a kv head up to where heads share a task, above, and more than a task has.
TEST(flash_attention, splits_of_many_rows) {
  Rng rng(8);
  for (index group : {index{7}, cpu::shared_unit_rows / 3, cpu::shared_unit_rows / 3 + 1, cpu::max_rows / 3, index{71}})
    for (DType kv : {DType::f16, DType::i8}) {
      Case c = make({.queries = 3, .keys = 2 * split + 9, .kv_heads = 1, .group = group, .dim = 3, .v_dim = 2}, rng,
                    DType::f32, kv);
      c.causal = true;
      drift(c, kv == DType::f16);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

}  // namespace
}  // namespace inlay::test
