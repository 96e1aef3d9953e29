// One option at a time over three splits of the keys, the last one begun by a few.
#include "tests/incre_flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::decode_split;
constexpr Shape three{
    .batch = 2, .queries = 3, .keys = 2 * split + cpu::key_tile + 3, .kv_heads = 2, .group = 2, .dim = 10, .v_dim = 12};
constexpr index all_heads = three.kv_heads * three.group;

// A case of three splits in which the largest scores come last, or first, and what `change` makes of it.
template <class Change> void over_three_splits(DType kv, Change&& change, DType out = DType::f32) {
  RoundedIntegers integers;
  for (bool rising : {false, true}) {
    Rng rng(rising);
    Shape shape = three;
    if (rising) shape.dim = 16;  // six rows of a kv head: its keys go four side by side (attention/four_rows.hpp)
    Case c = make(shape, rng, DType::f32, kv, out);
    drift(c, rising);
    change(c, rng);
    poison_unused(c);
    ASSERT_NO_FATAL_FAILURE(compare(c, &integers));
  }
}

TEST(incre_flash_attention, splits_plain) {
  for (DType kv : kv_dtypes) ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [](Case&, Rng&) {}));
}

TEST(incre_flash_attention, splits_lengths) {
  for (index length : lengths_around(split, three.keys)) {
    SCOPED_TRACE(length);
    const auto beside_a_long_one = [&](Case& c, Rng&) {
      c.lengths = list_of(DType::i64, {three.keys - 1, length});
      c.causal = true;
    };
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, beside_a_long_one));
  }
}

TEST(incre_flash_attention, splits_left_padding) {
  for (index padding : {index{0}, index{1}, split - 5, split})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f16, [&](Case& c, Rng& rng) {
      c.lengths = list_of(DType::i32, {split + 3, 2});
      if (padding <= 1) c.lengths = list_of(DType::i32, {2 * split + 1, split});
      c.left_padding = true, c.padding = padding;
      c.pse = {DType::f16, {1, all_heads, 1, three.keys}};
      c.pse.uniform(rng);
      c.mask = {DType::boolean, {2, 1, three.keys}};
      c.mask.integers(rng, 0, 1);
    }));
}

TEST(incre_flash_attention, splits_lists) {
  for (DType kv : {DType::f32, DType::i8})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [&](Case& c, Rng& rng) {
      for (index slots : {three.keys, index{5}}) {
        c.k_parts.push_back({kv, {slots, three.kv_heads, c.q.view().extents[3]}, layouts[1]});
        c.v_parts.push_back({kv, {slots, three.kv_heads, three.v_dim}, layouts[1]});
        fill_kv(c.k_parts.back(), rng);
        fill_kv(c.v_parts.back(), rng);
      }
    }));
}

// The largest score moves on by more than exp can take, from tile to tile and from split to split.
TEST(incre_flash_attention, splits_of_huge_scores) {
  for (DType kv : {DType::f32, DType::i8})
    ASSERT_NO_FATAL_FAILURE(
        over_three_splits(kv, [&](Case& c, Rng&) { c.scale = kv == DType::i8 ? 1000.0f : 100.0f; }));
}

TEST(incre_flash_attention, splits_sinks) {
  for (double size : {1.0, 9.0, -30.0})
    ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, [&](Case& c, Rng& rng) {
      c.sinks = random_sinks(all_heads, rng);
      for (index h = 0; h < all_heads; ++h) c.sinks.set(h, c.sinks.get(h) + size);
    }));
}

TEST(incre_flash_attention, splits_biases_softcap_and_their_orders) {
  for (BiasOrder order : bias_orders)
    for (int what = 1; what < 8; ++what)
      ASSERT_NO_FATAL_FAILURE(over_three_splits(what % 2 ? DType::f32 : DType::i8, [&](Case& c, Rng& rng) {
        c.order = order;
        if (what & 1) {
          c.pse = {DType::bf16, {what & 2 ? 2 : 1, all_heads, three.queries, three.keys}};
          c.pse.uniform(rng, -3, 3);
        }
        if (what & 2) c.alibi = slight_slopes(all_heads, three.keys, rng);
        if (what & 4) c.softcap = 2;
      }));
}

TEST(incre_flash_attention, splits_masks) {
  for (bool each_query : {false, true})
    for (DType kv : {DType::f16, DType::i8})
      ASSERT_NO_FATAL_FAILURE(over_three_splits(kv, [&](Case& c, Rng& rng) {
        c.mask = {DType::boolean, {each_query ? 2 : 1, each_query ? three.queries : 1, three.keys}};
        c.mask.integers(rng, 0, 1);
        // A whole split without a key, and a tile.
        for (index i = 0; i < c.mask.size(); ++i) {
          const index j = i % three.keys, row = i / three.keys;
          if (row == 0 && j >= split && j < 2 * split) c.mask.set(i, 1);
          if (row == 1 && j < cpu::key_tile) c.mask.set(i, 1);
        }
      }));
}

// Scales of tokens lie in the tile where their keys do, and a window begins within one.
TEST(incre_flash_attention, splits_windows) {
  for (index left : windows_around(split, three.keys))
    for (bool causal : {false, true}) {
      const auto windowed = [&](Case& c, Rng&) {
        c.left = left, c.causal = causal;
        c.lengths = list_of(DType::i32, {three.keys - 3, split + 1});
      };
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::f32, windowed));
      ASSERT_NO_FATAL_FAILURE(over_three_splits(DType::i8, [&](Case& c, Rng& rng) {
        windowed(c, rng);
        c.k_scale = Tensor<4>(DType::f32, {2, three.keys, three.kv_heads, 1}).uniform(rng, 0.002, 0.008);
        c.v_scale = Tensor<4>(DType::f32, {2, three.keys, 1, 1}).uniform(rng, 0.002, 0.008);
      }));
    }
}

TEST(incre_flash_attention, splits_int8_outputs) {
  ASSERT_NO_FATAL_FAILURE(over_three_splits(
      DType::f32,
      [](Case& c, Rng& rng) {
        c.out_scale = Tensor<2>(DType::f32, {all_heads, three.v_dim}).uniform(rng, 50, 300);
        c.out_offset = Tensor<2>(DType::f32, {1, three.v_dim}).uniform(rng, -20, 20);
      },
      DType::i8));
}

// More heads on a kv head than a task has rows: Falcon's 71, MLA's 128.
TEST(incre_flash_attention, splits_groups_above_a_tile_of_rows) {
  Rng rng(4);
  for (index group :
       {cpu::shared_unit_rows, cpu::shared_unit_rows + 1, index{71}, cpu::max_rows, cpu::max_rows + 1, index{128}})
    for (DType kv : {DType::f16, DType::i8}) {
      const bool mla = group == 128;
      Case c = make({.queries = mla ? 1 : 2,
                     .keys = mla ? 70 : 2 * split + 9,
                     .kv_heads = mla ? 1 : 2,
                     .group = group,
                     .dim = mla ? 80 : 3,
                     .v_dim = mla ? 64 : 2},
                    rng, DType::f32, kv);
      c.causal = true;
      drift(c, kv == DType::f16);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

}  // namespace
}  // namespace inlay::test
