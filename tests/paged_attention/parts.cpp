// Contexts of several parts, and what crosses from one into the next.
#include "cpu_kernels/attention/problem.hpp"
#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
namespace {

using cpu::key_tile;

constexpr index default_partition = PagedAttention<>{}.partition;

// Small heads, so that the scalar reference is quick over long contexts.
Shape small(std::vector<index> lens, index block_size, Pages pages) {
  return {.lens = std::move(lens),
          .q_heads = 2,
          .kv_heads = 1,
          .key_dim = 4,
          .value_dim = 5,
          .block_size = block_size,
          .pages = pages};
}

TEST(paged_attention, lengths_around_tiles_and_parts) {
  Rng rng(4);
  for (index partition : {index{0}, index{1}, index{16}, key_tile - 1, key_tile, key_tile + 1, default_partition})
    for (Pages pages : all_pages) {
      SCOPED_TRACE(name(pages));
      std::vector<index> lens = {1, 15, 16, 17};
      for (index tiles : {1, 2})
        for (index more : {-1, 0, 1}) lens.push_back(tiles * key_tile + more);
      for (index parts : {2, 3})
        for (index more : {-1, 0, 1})
          lens.push_back(parts * std::min<index>(partition, 70) + std::max<index>(more, -parts * partition));
      Case c = make(small(lens, 5, pages), rng);
      c.extra.partition = partition;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// The default, one given that no tile and no block divides, and none: three parts and one token more, three less one.
TEST(paged_attention, three_parts_in_blocks_of_every_size) {
  Rng rng(22);
  for (index partition : {index{0}, index{150}, default_partition})
    for (index block_size : {1, 3, 5, 16, 32, 256})
      for (Pages pages : {Pages::flat, Pages::vllm}) {
        SCOPED_TRACE(name(pages));
        const index part = partition > 0 ? partition : 150;
        Case c = make(small({3 * part + 1, 3 * part - 1}, block_size, pages), rng);
        c.extra.partition = partition;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// Every option over parts: a window that begins in the first, the second or the last, ALiBi, softcap, sinks.
TEST(paged_attention, options_over_three_parts) {
  Rng rng(23);
  constexpr index part = 100, length = 3 * part + 30;
  for (index window : {index{-1}, index{10}, part - 1, part + 29, part + 30, 2 * part + 35, length - 1, length})
    for (bool slopes : {false, true})
      for (float softcap : {0.0f, 3.0f})
        for (Pages pages : {Pages::head_major, Pages::vllm}) {
          SCOPED_TRACE(name(pages));
          Shape shape = small({length, 2 * part, part + 1, 0}, 16, pages);
          shape.q_heads = 6, shape.kv_heads = 2, shape.cache = window % 2 ? DType::f32 : DType::i8;
          Case c = make(shape, rng);
          if (slopes) c.slopes = alibi_slopes(6);
          c.sinks = random_sinks(6, rng);
          c.extra.scale = 3;
          c.extra.softcap = softcap;
          c.extra.window_left = window;
          c.extra.partition = part;
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// A sequence of few parts, or none, beside one of many, in every order.
TEST(paged_attention, short_sequences_beside_long_ones) {
  Rng rng(25);
  for (std::vector<index> lens : {std::vector<index>{3, 500}, {500, 3}, {0, 500, 0, 65, 500}, {1, 1, 129, 1}})
    for (Pages pages : all_pages) {
      SCOPED_TRACE(name(pages));
      Case c = make(small(lens, 16, pages), rng);
      c.extra.partition = 64;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Parts that would reach over the whole table are one part, and the default is what the page says.
TEST(paged_attention, parts_are_cut_at_the_partition) {
  EXPECT_EQ(default_partition, 512);
  Rng rng(12);
  const Case start = make({.lens = {1300, 600}, .q_heads = 4, .kv_heads = 2, .key_dim = 16, .value_dim = 16}, rng);
  for (index partition : {index{0}, default_partition, index{1299}, index{1300}, index{5000}}) {
    Case c = start;
    c.extra.partition = partition;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Which bits come out depends on `partition` alone: one that no context outgrows is none, another one sums otherwise.
TEST(paged_attention, the_partition_decides_the_bits) {
  Rng rng(27);
  Case start = make(small({200, 64, 0}, 16, Pages::flat), rng);
  start.sinks = random_sinks(2, rng);
  for (Isa isa : available_isas()) {
    const auto with = [&](index partition) {
      Case c = start;
      c.extra.partition = partition;
      const Cpu cpu(isa, serial());
      EXPECT_TRUE(ok(run_with_scratch(cpu, c.op())));
      return c.out;
    };
    const Tensor<3> whole = with(0);
    EXPECT_EQ(with(200), whole);
    EXPECT_EQ(with(512), whole);
    EXPECT_FALSE(with(48) == whole);
    EXPECT_FALSE(with(80) == with(48));
  }
}

// The table may reach further than any context: none is read there, and the parts behind the end stay away.
TEST(paged_attention, tables_that_reach_further_than_the_context) {
  Rng rng(26);
  for (index partition : {0, 32, 512}) {
    Case start = make(small({40, 7}, 16, Pages::flat), rng);
    Tensor<2> wide(DType::i32, {2, 90});
    wide.fill(std::numeric_limits<std::int32_t>::min());
    for (index b = 0; b < 2; ++b)
      for (index i = 0; i < 3; ++i) wide.set(b * 90 + i, start.tables.get(b * start.tables.extents()[1] + i));
    start.tables = wide;
    start.extra.partition = partition;
    ASSERT_NO_FATAL_FAILURE(compare(start));
  }
}

}  // namespace
}  // namespace inlay::test
