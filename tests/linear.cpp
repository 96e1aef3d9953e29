// linear against the reference. Sizes stand around what the kernels cut by, and follow their constants.
#include "tests/linear/case.hpp"

#include <set>

namespace inlay::test {
INLAY_RUNS_OF(Linear);

namespace {

constexpr index panel = linear_panel, block = cpu::linear_k_block, chunk = cpu::linear_row_chunk,
                group = cpu::linear_group;

// Rows around one tile and two of each level, and those few that have kernels of their own.
std::vector<index> tokens_around_tiles() {
  std::set<index> sizes = {1, 2, 3, 4, 5};
  for (index lanes : {1, 8, 16}) {
    const index tile = cpu::linear_tile_rows(lanes);
    sizes.insert({tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1});
  }
  return {sizes.begin(), sizes.end()};
}

// Channels around a panel, around the panels that a tile takes at once, and around a group of panels.
const std::vector<index> channels = {1,
                                     panel - 1,
                                     panel,
                                     panel + 1,
                                     2 * panel - 1,
                                     2 * panel + 1,
                                     3 * panel,
                                     cpu::max_tile_panels* panel,
                                     cpu::max_tile_panels* panel + 1,
                                     (group + 1) * panel + 1};

const std::vector<index> depths = {1,         2,     3,         7,         8,             9,
                                   15,        16,    17,        31,        32,            33,
                                   111,       block - 1, block, block + 1, block + 2, 2 * block - 1,
                                   2 * block, 2 * block + 1, 3 * block + 17};

// Absent, f32, f16, bf16 in turn.
void give_bias(Case& c, std::size_t turn, Rng& rng) {
  if (turn % 4) c.add_bias(float_types[turn % 4 - 1], rng);
}

TEST(linear, sweep) {
  Rng rng(1);
  const std::vector<index> tokens = tokens_around_tiles();
  std::size_t at = 0;
  for (Types type : all_types())
    for (index k : depths) {
      ++at;
      const index n = channels[at * 3 % channels.size()];
      Case c = make(type, tokens[at * 5 % tokens.size()], n, k, layouts[at % layouts.size()], rng);
      give_bias(c, at + at / 4, rng);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(linear, every_combination_of_types) {
  Rng rng(2);
  std::size_t at = 0;
  for (Types type : all_types())
    for (std::size_t bias = 0; bias < 4; ++bias)
      for (index tokens : {1, 3, 14}) {
        Case c = make(type, tokens, 2 * panel + 3, 35, layouts[++at % layouts.size()], rng);
        give_bias(c, bias, rng);
        ASSERT_NO_FATAL_FAILURE(compare(c));
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// Every number of rows up to two tiles and one row: each tile that any level has, with every kind of weight, over one
// block of k, over one and the next, with k odd.
TEST(linear, every_tile_of_rows) {
  Rng rng(3);
  for (Types type : kinds)
    for (index tokens = 1; tokens <= 2 * cpu::linear_tile_rows(16) + 1; ++tokens)
      for (index k : {index{5}, block + 3}) {
        Case c = make(type, tokens, 2 * panel + 1, k, layouts[static_cast<std::size_t>(tokens) % 3], rng);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// Panels of one to a few tiles, and around one group and two; for few rows, where a group is a tile's panels, and many.
TEST(linear, every_number_of_panels) {
  Rng rng(4);
  for (Types type : kinds)
    for (index panels : {index{1}, index{2}, index{3}, index{4}, index{5}, index{6}, group - 1, group, group + 1,
                         2 * group - 1, 2 * group + 1})
      for (index tokens : {1, 3, 13}) {
        const index n = panels * panel - panels % 3;
        Case c = make(type, tokens, n, 19, layouts[static_cast<std::size_t>(panels) % 3], rng);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// More channels than any memory of a tile holds, for one row: a head of many words.
TEST(linear, one_row_and_very_many_channels) {
  Rng rng(14);
  for (Types type : kinds) {
    Case c = make(type, 1, 32000 - 5, 9, {}, rng);
    ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
  }
}

// Blocks of k, odd and even, for all ways through them: few rows, a tile, tiles that share widened slices.
TEST(linear, every_block_of_k) {
  Rng rng(5);
  for (Types type : kinds)
    for (index k : {block - 1, block, block + 1, 2 * block - 1, 2 * block, 2 * block + 1, 3 * block + 2, 5 * block + 1})
      for (index tokens : {1, 4, 6, 13}) {
        Case c = make(type, tokens, panel + 3, k, {}, rng);
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// Chunks of rows: one less, one more, several that are cut unevenly; x is packed by several threads.
TEST(linear, chunks_of_rows) {
  Rng rng(6);
  for (Types type : kinds)
    for (index tokens : {chunk - 1, chunk, chunk + 1, 2 * chunk + 1, 3 * chunk - 1}) {
      const index n = tokens == chunk + 1 ? (group + 1) * panel - 2 : panel + 1;
      Case c = make(type, tokens, n, tokens == chunk + 1 ? block + 9 : 21, layouts[1], rng);
      c.add_bias(DType::f32, rng);
      ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
    }
  ASSERT_NO_FATAL_FAILURE(compare(make(kinds[0], chunk + 3, 20, 2 * block + 41, layouts[1], rng)));
}

TEST(linear, nothing_to_do_and_empty_sums) {
  Rng rng(7);
  for (Types type : kinds) {
    compare(make(type, 0, 17, 8, {}, rng));
    for (index tokens : {1, 3}) compare(make(type, tokens, 0, 8, {}, rng));
    for (index tokens : {1, 3, 14}) {
      compare_exactly(make(type, tokens, 17, 0, {}, rng));  // zeros
      compare_exactly(make(type, tokens, 17, 0, {}, rng).add_bias(DType::f16, rng));
    }
  }
}

TEST(linear, reference_agrees_with_eigen) {
  Rng rng(8);
  for (Types type : kinds) {
    const Case start = make(type, 24, 100, 777, layouts[1], rng);
    const Matrix expected = factors(start, start.x) * factors(start, start.rows).transpose();
    for (Form form : {Form::packed, Form::rows}) {
      Case textbook = start.unrounded();
      textbook.form = form;
      Reference reference;
      ASSERT_TRUE(ok(run(reference, textbook.op())));
      for (index i = 0; i < expected.size(); ++i)
        ASSERT_NEAR(textbook.y.get(i), expected.data()[i],
                    epsilon(DType::f32) * std::abs(expected.data()[i]) + 777 * 0x1p-52);
    }
  }
}

}  // namespace
}  // namespace inlay::test
