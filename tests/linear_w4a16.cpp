// linear_w4a16 against the reference, with both forms of its codes. Sizes stand around what the kernels cut by, and
// follow their constants.
#include "tests/linear_w4a16/case.hpp"

#include <set>

namespace inlay::test {
INLAY_RUNS_OF(LinearW4a16);

namespace {

constexpr index block = cpu::w4_block;
const W4Compute both[] = {W4Compute::exact_float, W4Compute::int8_activations};

// One row has kernels of its own; then around one tile and two of each level.
std::vector<index> rows_around_tiles() {
  std::set<index> sizes = {0, 1, 2, 3, 5};
  for (index tile : {cpu::w4_tile_rows(1), cpu::w4_tile_rows(8), cpu::w4_tile_rows(16), cpu::w4_int8_tile_rows(8, 4),
                     cpu::w4_int8_tile_rows(16, 4), cpu::w4_int8_alone_rows(16, 8)})
    sizes.insert({tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1});
  return {sizes.begin(), sizes.end()};
}
const std::vector<index> depths = {1,
                                   7,
                                   8,
                                   9,
                                   15,
                                   16,
                                   17,
                                   23,
                                   31,
                                   33,
                                   64,
                                   65,
                                   111,
                                   block - 1,
                                   block,
                                   block + 1,
                                   block + 8,
                                   2 * block,
                                   2 * block + 1,
                                   4 * block + 8};
// Those that divide a block and those that a block cuts in two, and more than one block.
const std::vector<index> groups = {0, 8, 16, 24, 32, 40, 64, 120, block, block + 8, 2 * block, 5 * block};

Types any_types(index group, Rng& rng) {
  const auto type = [&] { return float_types[rng() % 3]; };
  const DType x = type();
  return {.x = x,
          .y = rng() % 2 ? x : DType::f32,
          .scales = may_have_units(group) && rng() % 3 == 0 ? DType::i8 : type(),
          .zeros = rng() % 2 ? DType::u8 : type(),
          .offsets = type()};
}

TEST(linear_w4a16, sweep) {
  Rng rng(1);
  const std::vector<index> rows = rows_around_tiles();
  std::size_t turn = 0;
  for (W4Compute compute : both)
    for (index k : depths)
      for (index group : groups) {
        ++turn;
        const index bits = code_bits[rng() % 4];
        const auto form = static_cast<Form>(rng() % forms);
        const index n = std::array<index, 7>{1, 15, 16, 17, 33, 49, 65}[turn % 7];
        Case c = make({rows[turn * 5 % rows.size()], n, k, group, bits}, form, any_types(group, rng),
                      layouts[turn / 2 % 3], rng);
        if (rng() % 4) c.add_bias(float_types[rng() % 3], rng);
        c.compute = compute;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(linear_w4a16, every_combination_of_types) {
  Rng rng(2);
  std::size_t turn = 0;
  for (W4Compute compute : both)
    for (DType x : float_types)
      for (DType scales : {DType::f32, DType::f16, DType::bf16, DType::i8})
        for (DType other : {DType::u8, DType::f32, DType::f16, DType::bf16})
          for (Form form : {Form::zeros, Form::offsets, Form::codebook})
            for (index rows : {1, 3}) {
              if (form == Form::offsets && other == DType::u8) continue;
              if (form == Form::codebook && other != DType::u8) continue;                         // it has no other
              if (form == Form::offsets && scales == DType::i8 && other != DType::f32) continue;  // nor have they
              const Types types{
                  .x = x, .y = ++turn % 2 ? x : DType::f32, .scales = scales, .zeros = other, .offsets = other};
              Case c = make({rows, 20, 43, 16, code_bits[turn % 7 % 4]}, form, types, layouts[turn % 3], rng);
              if (turn % 4) c.add_bias(float_types[turn % 4 - 1], rng);
              c.compute = compute;
              ASSERT_NO_FATAL_FAILURE(compare(c));
            }
}

// To the bit: every number of rows up to two tiles and one.
TEST(linear_w4a16, every_tile_of_rows) {
  Rng rng(3);
  for (W4Compute compute : both)
    for (index rows = 1; rows <= 2 * cpu::w4_tile_rows(16) + 1; ++rows)
      for (auto [form, bits] : code_kinds) {
        if (form != Form::codebook) form = static_cast<Form>(rows % 3);
        Case c = make({rows, 35, block + 9, 24, bits}, form, {}, layouts[1], rng);
        c.compute = compute;
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// To the bit: segments of one length, which have tiles of their own, and rows for which codes of 5 and 6 bits are
// spread before: a job's at once, or fewer of them, of which the last are fewer still.
TEST(linear_w4a16, segments_of_one_length) {
  Rng rng(11);
  constexpr index spread = cpu::w4_spread_rows, long_k = cpu::w4_spread_bytes_at_once / (4 * w4_panel) + 32;
  for (index rows : {index{2}, index{3}, index{4}, index{7}, spread - 1, spread, 2 * spread + 1})
    for (auto [form, bits] : code_kinds) {
      if (form != Form::codebook) form = static_cast<Form>(rows % 3);
      const index k = rows == spread && (bits == 5 || bits == 6) ? long_k : block + 64;
      Case c =
          make({rows, 83, k, bits == 6 ? 16 : 32, bits}, form, {}, layouts[static_cast<std::size_t>(rows) % 3], rng);
      c.compute = W4Compute::int8_activations;
      ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
    }
}

// One row takes several panels side by side and several of those a task, cut finer for more threads; more rows take
// two, a job's eight, or four for integers: several such jobs a run, of which the last is shorter.
TEST(linear_w4a16, every_number_of_panels) {
  Rng rng(4);
  constexpr index wide = 2 * cpu::w4_row_panels(16, 1), tasks = Parallel::pieces_a_thread;
  std::set<index> counts = {2 * wide + 1,
                            3 * wide - 1,
                            3 * wide,
                            3 * wide + 1,
                            wide * tasks + 1,
                            wide * tasks + wide + 2,
                            cpu::w4_int8_job_panels * (2 * 2 * tasks + 2) + 1};
  for (index panels = 1; panels <= wide + 3; ++panels) counts.insert(panels);
  for (W4Compute compute : both)
    for (index panels : counts)
      for (index rows : {1, 2, 3, 5, 13}) {
        if (rows > 2 && panels > 3 * cpu::w4_job_panels + 1) continue;
        const auto form = static_cast<Form>((panels + rows) % forms);
        Case c = make({rows, panels * w4_panel - panels % 3, 17, 8, code_bits[panels % 4]}, form, {},
                      layouts[static_cast<std::size_t>(panels) % 3], rng);
        c.compute = compute;
        ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
      }
}

// Chunks of rows: one less, one more, several that are cut unevenly, with more than a job's panels.
TEST(linear_w4a16, chunks_of_rows) {
  Rng rng(5);
  constexpr index chunk = cpu::w4_chunk_rows, job = cpu::w4_job_panels * w4_panel;
  for (W4Compute compute : both)
    for (index rows : {chunk - 1, chunk, chunk + 1, 2 * chunk + 13}) {
      Case c = make({rows, rows == chunk + 1 ? job + 17 : 18, 25, 16, 4}, Form::zeros, {}, layouts[2], rng);
      c.add_bias(DType::f32, rng);
      c.compute = compute;
      ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
    }
  Case c = make({chunk + 5, 33, 2 * block + 8, 40, 4}, Form::symmetric, {}, {}, rng);
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

// Every group that the contract has against blocks, to the bit: segments and their scales.
TEST(linear_w4a16, every_segment) {
  Rng rng(6);
  for (W4Compute compute : both)
    for (index group : groups)
      for (index k : {block - 8, block + 24, 2 * block + 41})
        for (index rows : {1, 4}) {
          const auto form = static_cast<Form>((group / 8 + k) % forms);
          Case c = make({rows, 34, k, group, code_bits[(group / 8 + rows) % 4]}, form, {.scales = DType::f16},
                        layouts[1], rng);
          c.compute = compute;
          ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
        }
}

// Every group that scales in units of super-blocks have, to the bit: where units change.
TEST(linear_w4a16, every_super_block) {
  Rng rng(9);
  for (W4Compute compute : both)
    for (index group : groups)
      for (index k : {w4_super_block - 8, w4_super_block + 8, 3 * w4_super_block, 3 * w4_super_block + 73})
        for (index rows : {1, 4, 13}) {
          if (!may_have_units(group)) continue;
          const auto form = static_cast<Form>((group / 8 + k + rows) % forms);
          Case c = make({rows, 50, k, group, code_bits[(group / 8 + rows + k / 8) % 4]}, form, {.scales = DType::i8},
                        layouts[1], rng);
          c.compute = compute;
          ASSERT_NO_FATAL_FAILURE(compare_exactly(small_integers(c, rng)));
        }
}

// Slots in any order, some without input; an input that no slot names is never read.
TEST(linear_w4a16, perm) {
  Rng rng(7);
  for (W4Compute compute : both)
    for (DType type : float_types)
      for (index rows : {1, 3, 14})
        for (index k : {70, 131}) {
          const index slots = k + 5, named = 33;
          const DType scales = k % 4 == 3 ? DType::i8 : DType::f32;
          Case c = make({rows, 20, k, 32, code_bits[(rows + k) % 4]}, Form::zeros, {.x = type, .scales = scales},
                        layouts[1], rng, slots);
          std::vector<double> order(static_cast<std::size_t>(slots), -1);
          for (index i = 0; i < k; ++i) order[static_cast<std::size_t>(i)] = static_cast<double>(i);
          std::shuffle(order.begin(), order.end(), rng);
          for (index s = 0; s < slots; ++s) c.perm.set(s, order[static_cast<std::size_t>(s)]);
          c.compute = compute;
          ASSERT_NO_FATAL_FAILURE(compare(c));
          Case unread = c;
          for (index s = 0; s < slots; ++s)
            if (unread.perm.get(s) == named) unread.perm.set(s, -1);
          for (index t = 0; t < rows; ++t) unread.x.set(t * k + named, std::numeric_limits<double>::quiet_NaN());
          ASSERT_NO_FATAL_FAILURE(compare(unread));
        }
}

TEST(linear_w4a16, no_inputs_gives_the_bias) {
  Rng rng(8);
  for (W4Compute compute : both)
    for (index rows : {1, 2, 13}) {
      Case start = make({rows, 18, 0, 32, 4}, Form::symmetric, {}, {}, rng);
      start.compute = compute;
      ASSERT_NO_FATAL_FAILURE(compare_exactly(start));  // zeros
      start.add_bias(DType::f16, rng);
      ASSERT_NO_FATAL_FAILURE(compare_exactly(start));
    }
}

}  // namespace
}  // namespace inlay::test
