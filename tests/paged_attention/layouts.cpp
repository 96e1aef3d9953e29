// Layouts that keys and values do not share, pieces of any length, slots apart.
#include "cpu_kernels/attention/page_source.hpp"
#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
namespace {

using cpu::key_tile;
using cpu::pieces_at_a_time;

TEST(paged_attention, keys_and_values_in_layouts_of_their_own) {
  Rng rng(31);
  for (Pages keys : all_pages)
    for (Pages values : all_pages)
      for (DType cache : {DType::f32, DType::f16, DType::i8}) {
        SCOPED_TRACE(name(keys) + " keys, " + name(values) + " values");
        Case c = make({.lens = {70, 3},
                       .q_heads = 6,
                       .key_dim = 16,
                       .value_dim = 20,
                       .block_size = 8,
                       .cache = cache,
                       .pages = keys,
                       .value_pages = values},
                      rng);
        c.extra.partition = 40;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// A key in pieces of x, more than are multiplied at a time, and around that many.
TEST(paged_attention, keys_in_pieces_of_any_length) {
  Rng rng(32);
  struct Pieces {
    index x, count;
  };
  for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (Pieces pieces : {Pieces{1, pieces_at_a_time - 1},
                          {1, pieces_at_a_time},
                          {1, pieces_at_a_time + 1},
                          {1, 2 * pieces_at_a_time + 1},
                          {4, 2 * pieces_at_a_time + 2},
                          {8, pieces_at_a_time - 1},
                          {8, pieces_at_a_time},
                          {8, pieces_at_a_time + 1},
                          {8, pieces_at_a_time + 2},
                          {3, 5},
                          {16, 1},
                          {16, 3},
                          {24, 2},
                          {37, 3}}) {
      SCOPED_TRACE(describe("x", pieces.x, "pieces", pieces.count));
      ASSERT_NO_FATAL_FAILURE(compare(make({.lens = {21},
                                            .q_heads = 5,
                                            .kv_heads = 1,
                                            .key_dim = pieces.x * pieces.count,
                                            .value_dim = 8,
                                            .block_size = 8,
                                            .cache = cache,
                                            .pages = Pages::pieces,
                                            .value_pages = Pages::vllm,
                                            .x = pieces.x},
                                           rng)));
    }
}

// Slots side by side, and a step apart: the widths of V around a tile of dims and around registers.
TEST(paged_attention, values_by_slots) {
  Rng rng(33);
  for (DType cache : {DType::f32, DType::f16, DType::i8})
    for (index dim : {index{1}, index{7}, index{15}, key_tile - 1, key_tile, key_tile + 1, 2 * key_tile + 17})
      for (index block_size : {1, 8, 16, 24, 64})
        for (bool apart : {false, true}) {
          SCOPED_TRACE(apart ? "slots apart" : "slots side by side");
          ASSERT_NO_FATAL_FAILURE(compare(make({.lens = {67, 2},
                                                .q_heads = 3,
                                                .kv_heads = 1,
                                                .key_dim = 4,
                                                .value_dim = dim,
                                                .block_size = block_size,
                                                .cache = cache,
                                                .pages = Pages::flat,
                                                .value_pages = apart ? Pages::pieces : Pages::vllm,
                                                .x = apart ? 1 : 0},
                                               rng)));
        }
}

// A pool in which keys and values of a block lie side by side, as FlashInfer's.
TEST(paged_attention, keys_and_values_interleaved_by_block) {
  Rng rng(34);
  Case start = make({.lens = {70, 40}, .key_dim = 16, .value_dim = 16, .cache = DType::f16, .spare = 0}, rng);
  const index blocks = start.keys.view().extents[0];
  Tensor<5> both(DType::f16, {blocks, 2, 16, 2, 16});
  const View<5> all = both.view();
  const auto half = [&](index which) {
    View<5> part = all.slice(1, which, 1);
    return flat_cache(View<4>(part.data, part.dtype, {blocks, 16, 2, 16},
                              {part.strides[0], part.strides[2], part.strides[3], part.strides[4]}));
  };
  for (index slot = 0; slot < blocks * 16; ++slot)
    for (index h = 0; h < 2; ++h)
      for (index d = 0; d < 16; ++d) {
        both.set((((slot / 16 * 2 + 0) * 16 + slot % 16) * 2 + h) * 16 + d, start.keys.get(slot, h, d));
        both.set((((slot / 16 * 2 + 1) * 16 + slot % 16) * 2 + h) * 16 + d, start.values.get(slot, h, d));
      }
  const Compare right{bound(start)};
  Case expected = start.unrounded();
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    PagedAttention<Host> op = got.op();
    op.k = half(0), op.v = half(1);
    ASSERT_TRUE(ok(run(op)));
    right(expected, got);
  });
}

}  // namespace
}  // namespace inlay::test
