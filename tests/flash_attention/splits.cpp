// Over three splits of the keys, what the other operators are not given: blocks, bits, a window on the right, ragged
// sequences. tests/attention/splits.cpp has the rest.
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index split = cpu::prompt_split;
constexpr ProblemShape three{
    .batch = 2, .queries = 3, .keys = 2 * split + cpu::key_tile + 3, .kv_heads = 1, .group = 2, .dim = 6, .v_dim = 5};

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

TEST(flash_attention, splits_packed_masks) {
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

}  // namespace
}  // namespace inlay::test
