// The layouts of core/paged_kv.hpp with addresses worked out by hand: kernels, references and checks all stand on them.
#include <inlay/core/paged_kv.hpp>

#include <gtest/gtest.h>

#include <vector>

namespace inlay {
namespace {

// A pool of 3 blocks with 4 slots, 2 heads, dim 6; strides with room between, so that none is a product of extents.
f16 memory[4096];

TEST(paged_kv, flat) {
  const View<4> pool(memory, {3, 4, 2, 6}, {100, 20, 7, 1});
  const PagedView<> cache = flat_cache(pool);
  EXPECT_EQ(cache.extents, (std::array<index, 5>{3, 2, 1, 4, 6}));
  EXPECT_EQ(block_count(cache), 3);
  EXPECT_EQ(kv_head_count(cache), 2);
  EXPECT_EQ(block_size_of(cache), 4);
  EXPECT_EQ(head_dim_of(cache), 6);
  EXPECT_EQ(slot_count(cache), 12);
  EXPECT_EQ(slot_offset(cache, 0, 0), 0);
  EXPECT_EQ(slot_offset(cache, 3, 0), 60);   // block 0, slot 3
  EXPECT_EQ(slot_offset(cache, 4, 0), 100);  // block 1, slot 0
  EXPECT_EQ(slot_offset(cache, 11, 1), 200 + 60 + 7);
  EXPECT_EQ(dim_offset(cache, 5), 5);
  EXPECT_EQ(paged_offset(cache, 6, 1, 3), 100 + 2 * 20 + 7 + 3);
  EXPECT_EQ(cache.data, memory);
  EXPECT_EQ(cache.dtype, DType::f16);
}

TEST(paged_kv, head_major) {
  const View<4> pool(memory, {3, 2, 4, 6}, {100, 40, 8, 1});
  const PagedView<> cache = head_major_cache(pool);
  EXPECT_EQ(cache.extents, (std::array<index, 5>{3, 2, 1, 4, 6}));
  EXPECT_EQ(slot_offset(cache, 3, 0), 24);
  EXPECT_EQ(slot_offset(cache, 4, 0), 100);
  EXPECT_EQ(paged_offset(cache, 11, 1, 5), 200 + 40 + 3 * 8 + 5);
}

TEST(paged_kv, slot_minor) {
  const View<4> pool(memory, {3, 2, 6, 4}, {100, 45, 5, 1});
  const PagedView<> cache = slot_minor_cache(pool);
  EXPECT_EQ(cache.extents, (std::array<index, 5>{3, 2, 6, 4, 1}));
  EXPECT_EQ(head_dim_of(cache), 6);
  EXPECT_EQ(slot_offset(cache, 7, 1), 100 + 45 + 3);
  EXPECT_EQ(dim_offset(cache, 1), 5);
  EXPECT_EQ(dim_offset(cache, 5), 25);
  EXPECT_EQ(paged_offset(cache, 7, 1, 5), 100 + 45 + 3 + 25);
}

TEST(paged_kv, pieces) {
  const PagedView<> cache(memory, {3, 2, 3, 4, 2}, {100, 50, 11, 2, 1});
  EXPECT_EQ(head_dim_of(cache), 6);
  EXPECT_EQ(dim_offset(cache, 0), 0);
  EXPECT_EQ(dim_offset(cache, 1), 1);
  EXPECT_EQ(dim_offset(cache, 2), 11);
  EXPECT_EQ(dim_offset(cache, 5), 23);
  EXPECT_EQ(paged_offset(cache, 9, 1, 4), 200 + 1 * 2 + 50 + 22);
}

TEST(paged_kv, scales) {
  const View<3> scales(memory, {3, 2, 4}, {30, 10, 1});
  const PagedView<> cache = scales_cache(scales);
  EXPECT_EQ(cache.extents, (std::array<index, 5>{3, 2, 1, 4, 1}));
  EXPECT_EQ(slot_offset(cache, 6, 1), 30 + 10 + 2);
  EXPECT_EQ(head_dim_of(cache), 1);
}

TEST(paged_kv, x_of_vllm) {
  EXPECT_EQ(vllm_key_x(DType::f32), 4);
  EXPECT_EQ(vllm_key_x(DType::f16), 8);
  EXPECT_EQ(vllm_key_x(DType::bf16), 8);
  EXPECT_EQ(vllm_key_x(DType::i8), 16);
}

TEST(paged_kv, offsets_are_64_bit) {
  const PagedView<> cache(memory, {1 << 13, 8, 1, 16, 8192}, {index{1} << 20, 8192, 8192, index{1} << 16, 1});
  EXPECT_EQ(paged_offset(cache, (1 << 17) - 1, 7, 8191), (index{1} << 33) - 1);
}

// Every element of a block is met once, and at the same place in both, whatever the runs.
template <class A, class B> void expect_whole(const A& a, const B& b) {
  const BlockRuns runs = block_runs(a, b);
  std::vector<std::pair<index, index>> met, all;
  for (index i = 0; i < runs.count[0]; ++i)
    for (index j = 0; j < runs.count[1]; ++j)
      for (index k = 0; k < runs.count[2]; ++k)
        for (index l = 0; l < runs.count[3]; ++l)
          for (index e = 0; e < runs.run; ++e)
            met.emplace_back(i * runs.from[0] + j * runs.from[1] + k * runs.from[2] + l * runs.from[3] + e,
                             i * runs.to[0] + j * runs.to[1] + k * runs.to[2] + l * runs.to[3] + e);
  for (index s = 0; s < block_size_of(a); ++s)
    for (index h = 0; h < kv_head_count(a); ++h)
      for (index d = 0; d < head_dim_of(a); ++d) all.emplace_back(paged_offset(a, s, h, d), paged_offset(b, s, h, d));
  std::sort(met.begin(), met.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(met, all);
}

TEST(paged_kv, runs_of_a_block) {
  const PagedView<> flat = flat_cache(View<4>(memory, {3, 4, 2, 6}));
  EXPECT_EQ(block_runs(flat, flat).run, 48);  // a block in one piece
  for (index count : block_runs(flat, flat).count) EXPECT_EQ(count, 1);

  const PagedView<> apart = flat_cache(View<4>(memory, {3, 4, 2, 6}, {100, 24, 12, 1}));
  const BlockRuns runs = block_runs(apart, flat);  // heads apart in one: 6 elements at a time
  EXPECT_EQ(runs.run, 6);
  EXPECT_EQ(runs.count[0] * runs.count[1] * runs.count[2] * runs.count[3], 8);
  EXPECT_EQ(runs.count[3], 8);  // heads and slots follow each other in both: one loop
  EXPECT_EQ(runs.from[3], 12);
  EXPECT_EQ(runs.to[3], 6);

  const PagedView<> major = head_major_cache(View<4>(memory, {3, 2, 4, 6}));
  const PagedView<> pieces(memory, {3, 2, 3, 4, 2}, {100, 50, 11, 2, 1});
  const PagedView<> other(memory, {3, 2, 3, 4, 2}, {100, 3, 14, 42, 1});
  const PagedView<> minor = slot_minor_cache(View<4>(memory, {3, 2, 6, 4}, {100, 45, 5, 1}));
  const PagedView<> tight = slot_minor_cache(View<4>(memory, {3, 2, 6, 4}));
  const PagedView<> single = flat_cache(View<4>(memory, {3, 1, 1, 6}, {100, 9, 9, 1}));
  expect_whole(flat, flat), expect_whole(apart, flat), expect_whole(flat, apart), expect_whole(apart, apart);
  expect_whole(flat, major), expect_whole(major, flat), expect_whole(major, major), expect_whole(major, apart);
  expect_whole(pieces, pieces), expect_whole(pieces, other), expect_whole(other, pieces);
  expect_whole(minor, minor), expect_whole(minor, tight), expect_whole(tight, minor), expect_whole(tight, tight);
  expect_whole(single, single);
}

}  // namespace
}  // namespace inlay
