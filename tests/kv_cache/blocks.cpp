// copy_blocks and swap_blocks.
#include <inlay/ops/kv_cache.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paged.hpp"

namespace inlay::test {
namespace {

constexpr double untouched = 7;

TEST(kv_cache, copy_blocks) {
  Rng rng(7);
  for (DType type : {DType::f32, DType::f16, DType::i8})
    for (Pages pages : all_pages)
      for (index block_size : {1, 5, 16}) {
        SCOPED_TRACE(describe(type, name(pages), block_size));
        Pool keys(type, {9, block_size, 3, 16}, pages, Pool::keys, layouts[block_size % 3]);
        Pool values(type, {9, block_size, 3, 6}, pages, Pool::values);
        Tensor<3> scales(DType::f32, {9, 3, block_size});
        keys.memory.uniform(rng, -9, 9);
        values.memory.uniform(rng, -9, 9);
        scales.uniform(rng);
        Tensor<2> pairs(DType::i64, {4, 2}, {.row_gap = 1, .misaligned = 0});
        const double list[] = {2, 7, 2, 0, 5, 8, 6, 1};
        for (index i = 0; i < 8; ++i) pairs.set(i, list[i]);
        on_every_backend([&](const std::string&, auto run) {
          Pool k = keys, v = values;
          Tensor<3> ks = scales, vs = scales;
          ASSERT_TRUE(ok(run(CopyBlocks<Host>{
              .key_cache = k, .value_cache = v, .key_scales = ks, .value_scales = vs, .pairs = pairs})));
          const index from[] = {2, 6, 2, 3, 4, 5, 6, 2, 5};
          for (index slot = 0; slot < 9 * block_size; ++slot)
            for (index h = 0; h < 3; ++h) {
              const index origin = from[slot / block_size] * block_size + slot % block_size;
              for (index d = 0; d < 16; ++d) ASSERT_EQ(k.get(slot, h, d), keys.get(origin, h, d)) << slot;
              for (index d = 0; d < 6; ++d) ASSERT_EQ(v.get(slot, h, d), values.get(origin, h, d)) << slot;
              const index there = slot_offset(scales_cache(ks.view()), slot, h);
              ASSERT_EQ(ks.data<float>()[there],
                        scales.data<float>()[slot_offset(scales_cache(scales.view()), origin, h)]);
            }
          EXPECT_TRUE(k.memory.gaps_untouched());
          EXPECT_TRUE(v.memory.gaps_untouched());
          EXPECT_EQ(vs, ks);
        });
        Reference reference;
        Pool k = keys;
        ASSERT_TRUE(ok(run(reference, CopyBlocks<Host>{.key_cache = k, .pairs = pairs})));
        for (index d = 0; d < 16; ++d) ASSERT_EQ(k.get(7 * block_size, 1, d), keys.get(2 * block_size, 1, d));
      }
}

// The two pools may have layouts of their own: x and groups agree, strides need not.
TEST(kv_cache, swap_blocks_between_pools) {
  Rng rng(8);
  for (Pages from : {Pages::flat, Pages::head_major})
    for (Pages to : {Pages::flat, Pages::head_major}) {
      SCOPED_TRACE(describe(name(from), name(to)));
      Pool device(DType::bf16, {6, 3, 2, 40}, from, Pool::keys, layouts[1]);
      Pool host(DType::bf16, {4, 3, 2, 40}, to, Pool::keys, layouts[2]);
      device.memory.uniform(rng);
      host.memory.fill(untouched);
      const std::int64_t list[] = {5, 0, 1, 3, 5, 2};
      const ConstView<2> pairs(list, {3, 2});
      const auto test = [&](auto run) {
        Pool got = host;
        ASSERT_TRUE(ok(run(SwapBlocks<>{.source = device, .target = got, .pairs = pairs})));
        for (index slot = 0; slot < 12; ++slot)
          for (index h = 0; h < 2; ++h)
            for (index d = 0; d < 40; ++d) {
              const index block = std::array<index, 4>{5, -1, 5, 1}[slot / 3];
              ASSERT_EQ(got.get(slot, h, d), block < 0 ? untouched : device.get(block * 3 + slot % 3, h, d));
            }
        EXPECT_TRUE(got.memory.gaps_untouched());
      };
      on_every_backend([&](const std::string&, auto run) { test(run); });
      test([](const auto& op) {
        Reference reference;
        return run(reference, op);
      });
    }
}

TEST(kv_cache, pairs_of_blocks_are_checked) {
  Pool keys(DType::f16, {3, 8, 2, 16}, Pages::flat, Pool::keys);
  const auto copy = [&](std::vector<std::int64_t> list) {
    const ConstView<2> pairs(list.data(), {static_cast<index>(list.size()) / 2, 2});
    return std::string(check(CopyBlocks<Host>{.key_cache = keys, .pairs = pairs}).message());
  };
  EXPECT_NE(copy({0, 1, 2, 3}).find("pairs[1] has the target 3; it must be in 0..2"), std::string::npos);
  EXPECT_NE(copy({-1, 1}).find("pairs[0] has the source -1; it must be in 0..2"), std::string::npos);
  EXPECT_NE(copy({0, 1, 2, 1}).find("target 1 twice"), std::string::npos);
  EXPECT_NE(copy({0, 1, 1, 2}).find("pairs[1] has the source 1, which is a target too"), std::string::npos);
  Pool other(DType::f16, {2, 8, 2, 16}, Pages::flat, Pool::keys);
  const std::int64_t pair[] = {2, 2};
  expect_refused(SwapBlocks<>{.source = keys, .target = other, .pairs = ConstView<2>(pair, {1, 2})},
                 {"pairs[0]", "target 2", "0..1"});
  expect_refused(SwapBlocks<>{.source = keys, .target = keys, .pairs = ConstView<2>(pair, {1, 2})},
                 {"target", "overlaps", "source"});
}

}  // namespace
}  // namespace inlay::test
