// Keys that are taken four side by side, and dims of slot-minor values: from where on, in tiles of how many rows, and
// what ends within a chunk of sixteen bytes.
#include <random>

#include "cpu_kernels/attention/sizes.hpp"
#include "tests/paged_attention/bound.hpp"

namespace inlay::test {
namespace {

using cpu::max_x4_elements;
using cpu::max_x4_rows;
using cpu::min_x4_rows;

constexpr index key_tile_and_more = cpu::key_tile + 6;
constexpr DType caches[] = {DType::f32, DType::f16, DType::bf16, DType::i8};

// How the CPU cuts its work is what is swept. Others, which make a program of most cases, take one of eight.
void sweep(const Case& start) {
  static std::minstd_rand draw;
  compare(start, draw() / 16 % 8 == 0 ? SweptOn::every_backend : SweptOn::cpu);
}

// One tile of rows, two and three, which are as even as they can be.
TEST(paged_attention, four_keys_and_every_tile_of_rows) {
  Rng rng(71);
  std::vector<index> groups = {16, 17, 20};
  for (index group = min_x4_rows - 1; group <= 2 * max_x4_rows - 1; ++group) groups.push_back(group);
  for (index group : groups)
    for (DType cache : caches)
      for (Pages pages : all_pages) {
        SCOPED_TRACE(describe(name(pages), cache, "group", group));
        Case c = make({.lens = {key_tile_and_more, 3},
                       .q_heads = 2 * group,
                       .kv_heads = 2,
                       .key_dim = 16,
                       .value_dim = 12,
                       .cache = cache,
                       .pages = pages},
                      rng);
        ASSERT_NO_FATAL_FAILURE(sweep(c));
      }
}

// Of 1 chunk and of more, and a last one that is not whole; the most that are spread, and the first that are not.
TEST(paged_attention, four_keys_of_every_dim) {
  Rng rng(72);
  for (index group : {min_x4_rows, index{7}, index{2 * max_x4_rows + 1}})
    for (index dim : {index{4}, index{8}, index{16}, index{24}, index{40}, index{60}, index{72}, index{80},
                      max_x4_elements / max_x4_rows, max_x4_elements / 7, max_x4_elements / 7 + 16})
      for (DType cache : caches)
        for (Pages pages : {Pages::flat, Pages::vllm}) {
          SCOPED_TRACE(describe(name(pages), cache, "group", group, "dim", dim));
          ASSERT_NO_FATAL_FAILURE(sweep(make({.lens = {19, key_tile_and_more},
                                              .q_heads = group,
                                              .kv_heads = 1,
                                              .key_dim = dim,
                                              .value_dim = 5,
                                              .cache = cache,
                                              .pages = pages},
                                             rng)));
        }
}

// Slots of a block that are whole chunks, and not; values of more dims than a tile; rows of keys beside them.
TEST(paged_attention, four_dims_of_values) {
  Rng rng(73);
  for (index block_size : {index{1}, index{4}, index{8}, index{12}, index{16}, index{64}, index{80}})
    for (index value_dim : {index{1}, index{30}, index{64}, index{66}, index{130}})
      for (DType cache : caches) {
        SCOPED_TRACE(describe(cache, "block_size", block_size, "value_dim", value_dim));
        for (index group : {min_x4_rows, index{2 * max_x4_rows - 3}}) {
          Case c = make({.lens = {130, 64, 9},
                         .q_heads = group,
                         .kv_heads = 1,
                         .key_dim = 8,
                         .value_dim = value_dim,
                         .block_size = block_size,
                         .cache = cache,
                         .pages = Pages::vllm},
                        rng);
          c.extra.partition = 100;
          ASSERT_NO_FATAL_FAILURE(sweep(c));
        }
      }
}

// int8 with one scale for all, with the tokens' own, and both.
TEST(paged_attention, four_keys_of_int8) {
  Rng rng(74);
  for (Pages pages : all_pages)
    for (int scales = 0; scales < 3; ++scales) {
      SCOPED_TRACE(describe(name(pages), "scales", scales));
      Case c = make({.lens = {140, 3},
                     .q_heads = 14,
                     .kv_heads = 2,
                     .key_dim = 32,
                     .value_dim = 32,
                     .cache = DType::i8,
                     .pages = pages},
                    rng);
      if (scales == 0) c.k_scale = c.v_scale = {};
      if (scales != 1) c.extra.k_tensor_scale = 0.01f, c.extra.v_tensor_scale = 0.02f;
      ASSERT_NO_FATAL_FAILURE(sweep(c));
    }
}

}  // namespace
}  // namespace inlay::test
