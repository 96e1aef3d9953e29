// copy_blocks and swap_blocks.
#include "tests/kv_cache/case.hpp"

namespace inlay::test {
namespace {

// A pool whose memory, what lies between included, has a number of its own in each element; int8 as many as it has.
Pool numbered(DType type, const PoolShape& shape, Pages pages, Pool::Kind kind, Layout layout, index from = 0) {
  Pool pool(type, shape, pages, kind, layout);
  const index most = type == DType::f32 ? 1 << 20 : type == DType::i8 ? 251 : 2039;
  const double offset = type == DType::i8 ? -128 : 0;
  for (index k = 0; k < pool.memory.size(); ++k) pool.memory.set(k, static_cast<double>((k + from) % most) + offset);
  return pool;
}

// `target` after its blocks were copied from `source`, element by element.
void copy_by_hand(Pool& source, Pool& target, const std::vector<index>& pairs) {
  const PagedView<> all = source.view();
  const index block_size = block_size_of(all);
  for (std::size_t i = 0; i < pairs.size(); i += 2)
    for (index s = 0; s < block_size; ++s)
      for (index h = 0; h < kv_head_count(all); ++h)
        for (index d = 0; d < head_dim_of(all); ++d)
          target.set(pairs[i + 1] * block_size + s, h, d, source.get(pairs[i] * block_size + s, h, d));
}

// Pairs i with a stride between.
Tensor<2> pairs_of(const std::vector<index>& list) {
  Tensor<2> pairs(DType::i64, {static_cast<index>(list.size()) / 2, 2}, {.row_gap = 1, .misaligned = 0});
  for (std::size_t i = 0; i < list.size(); ++i) pairs.set(static_cast<index>(i), static_cast<double>(list[i]));
  return pairs;
}

template <class Test> void everywhere(Test&& test) {
  test([](const auto& op) {
    Reference reference;
    return run(reference, op);
  });
  on_every_backend([&](const std::string&, auto run) { test(run); });
  on_backwards([&](auto run) { test(run); });
}

// Sources and targets mixed, the first block and the last, one source twice; or many pairs, all of the upper half.
const std::vector<std::vector<index>> pair_lists = [] {
  std::vector<std::vector<index>> lists = {{}, {8, 0}, {2, 7, 2, 0, 5, 8, 6, 1}};
  lists.emplace_back();
  for (index i = 0; i < 20; ++i) lists.back().insert(lists.back().end(), {(i * 7) % 20, 39 - i});
  return lists;
}();
index blocks_of(const std::vector<index>& list) { return list.size() > 8 ? 40 : 9; }

TEST(kv_cache, copy_blocks) {
  Rng rng(7);
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (Pages pages : all_pages)
      for (index block_size : {1, 5, 16})
        for (const std::vector<index>& list : pair_lists) {
          SCOPED_TRACE(describe(type, name(pages), block_size, list.size()));
          const index blocks = blocks_of(list), spare = block_size % 2;
          const Layout layout = layouts[block_size % 3];
          Pool keys = numbered(type, {blocks, block_size, 3, 16, 0, spare}, pages, Pool::keys, layout);
          Pool values = numbered(type, {blocks, block_size, 3, 6, 0, 1}, pages, Pool::values, layout, 5);
          Pool right[] = {keys, values};
          for (Pool& pool : right) copy_by_hand(pool, pool, list);
          const index row = 3 * block_size;
          Tensor<3> scales(DType::f32, {blocks, 3, block_size}, layout);
          for (index k = 0; k < scales.size(); ++k) scales.set(k, static_cast<double>(k));
          Tensor<3> right_scales = scales;
          for (std::size_t i = 0; i < list.size(); i += 2)
            for (index k = 0; k < row; ++k)
              right_scales.set(list[i + 1] * row + k, static_cast<double>(list[i] * row + k));
          const Tensor<2> pairs = pairs_of(list);
          everywhere([&](auto run) {
            Pool got[] = {keys, values};
            Tensor<3> k_scale = scales, v_scale = scales;
            CopyBlocks<Host> op{.k_cache = got[0], .pairs = pairs};
            op.v_cache = got[1];
            op.k_scale = k_scale, op.v_scale = v_scale;
            ASSERT_TRUE(ok(run(op)));
            expect_same_memory(got[0].memory, right[0].memory);
            expect_same_memory(got[1].memory, right[1].memory);
            expect_same_memory(k_scale, right_scales);
            expect_same_memory(v_scale, right_scales);
          });
        }
}

// Each tensor beside the keys may be left out.
TEST(kv_cache, copy_blocks_of_what_is_given) {
  const Tensor<2> pairs = pairs_of({0, 3, 1, 2});
  for (bool with_values : {false, true})
    for (bool with_key_scales : {false, true})
      for (bool with_value_scales : {false, with_values}) {
        const Pool start = numbered(DType::i8, {4, 5, 2, 8}, Pages::flat, Pool::keys, {});
        Pool right = start;
        copy_by_hand(right, right, {0, 3, 1, 2});
        Tensor<3> scales(DType::f32, {4, 2, 5}), right_scales = scales;
        for (index k = 0; k < 40; ++k) scales.set(k, static_cast<double>(k));
        for (index k = 0; k < 40; ++k)
          right_scales.set(k, static_cast<double>(k / 10 == 3 ? k - 30 : k / 10 == 2 ? k - 10 : k));
        everywhere([&](auto run) {
          Pool k = start, v = start;
          Tensor<3> ks = scales, vs = scales;
          CopyBlocks<Host> op{.k_cache = k, .pairs = pairs};
          if (with_values) op.v_cache = v;
          if (with_key_scales) op.k_scale = ks;
          if (with_value_scales) op.v_scale = vs;
          ASSERT_TRUE(ok(run(op)));
          expect_equal(k.memory, right.memory);
          expect_equal(v.memory, with_values ? right.memory : start.memory);
          EXPECT_EQ(ks, with_key_scales ? right_scales : scales);
          EXPECT_EQ(vs, with_value_scales ? right_scales : scales);
        });
      }
}

// Signalling NaNs with their payload, subnormals, -0: bytes are bytes.
TEST(kv_cache, blocks_are_copied_bit_for_bit) {
  constexpr index elements = 3 * 4 * 2 * 16;  // 3 blocks
  std::vector<std::uint16_t> start(elements);
  for (index i = 0; i < elements; ++i) start[i] = static_cast<std::uint16_t>(i * 40503);
  const std::int64_t list[] = {0, 2};
  const ConstView<2> pairs(list, {1, 2});
  everywhere([&](auto run) {
    std::vector<std::uint16_t> copied = start, swapped(elements, 0x7d01);
    const auto cache = [](std::vector<std::uint16_t>& bits) {
      return flat_cache(View<4>(reinterpret_cast<f16*>(bits.data()), {3, 4, 2, 16}));
    };
    ASSERT_TRUE(ok(run(CopyBlocks<Host>{.k_cache = cache(copied), .pairs = pairs})));
    ASSERT_TRUE(ok(run(SwapBlocks<>{.source = cache(start), .target = cache(swapped), .pairs = pairs})));
    for (index i = 0; i < elements; ++i) {
      const bool third = i >= elements * 2 / 3;
      ASSERT_EQ(copied[i], start[third ? i - elements * 2 / 3 : i]) << i;
      ASSERT_EQ(swapped[i], third ? start[i - elements * 2 / 3] : 0x7d01) << i;
    }
  });
}

// The two pools may have layouts of their own: x and groups agree, strides need not.
TEST(kv_cache, swap_blocks_between_pools) {
  struct Layouts {
    Pages from, to;
    Pool::Kind kind;
  };
  for (const auto& [from, to, kind] : {Layouts{Pages::flat, Pages::flat, Pool::keys},
                                       {Pages::flat, Pages::head_major, Pool::keys},
                                       {Pages::head_major, Pages::flat, Pool::keys},
                                       {Pages::head_major, Pages::head_major, Pool::keys},
                                       {Pages::vllm, Pages::vllm, Pool::keys},
                                       {Pages::vllm, Pages::vllm, Pool::values}})
    for (DType type : {DType::f32, DType::bf16, DType::i8})
      for (index spare : {0, 1, 2})  // of the source; the target has one
        for (const std::vector<index>& list : pair_lists) {
          SCOPED_TRACE(describe(name(from), name(to), type, spare, list.size()));
          const index blocks = blocks_of(list);
          Pool device = numbered(type, {blocks, 3, 2, 40, 0, spare}, from, kind, layouts[1]);
          const Pool host = numbered(type, {blocks + 1, 3, 2, 40, 0, 1}, to, kind, layouts[2], 17);
          Pool right = host;
          copy_by_hand(device, right, list);
          const Tensor<2> pairs = pairs_of(list);
          const Tensor<5> before = device.memory;
          everywhere([&](auto run) {
            Pool got = host;
            ASSERT_TRUE(ok(run(SwapBlocks<>{.source = device, .target = got, .pairs = pairs})));
            expect_same_memory(got.memory, right.memory);
            expect_same_memory(device.memory, before);
          });
        }
}

// Scales go as a cache of their own; a block may go to several, and to its own number.
TEST(kv_cache, swap_blocks_of_scales) {
  Tensor<3> source(DType::f32, {5, 2, 4}, layouts[1]), target(DType::f32, {3, 2, 4}, layouts[2]), right;
  for (index k = 0; k < source.size(); ++k) source.set(k, static_cast<double>(k));
  target.fill(untouched);
  right = target;
  for (index k = 0; k < 8; ++k)
    right.set(k, static_cast<double>(4 * 8 + k)), right.set(16 + k, static_cast<double>(4 * 8 + k));
  const Tensor<2> pairs = pairs_of({4, 2, 4, 0});
  everywhere([&](auto run) {
    Tensor<3> got = target;
    ASSERT_TRUE(ok(run(SwapBlocks<>{
        .source = scales_cache(ConstView<3>(source)), .target = scales_cache(got.view()), .pairs = pairs})));
    EXPECT_EQ(got, right);
    EXPECT_TRUE(got.gaps_untouched());
  });
}

TEST(kv_cache, pairs_of_blocks_are_checked) {
  Pool keys(DType::f16, {3, 8, 2, 16}, Pages::flat, Pool::keys);
  const auto copy = [&](std::vector<std::int64_t> list) {
    const ConstView<2> pairs(list.data(), {static_cast<index>(list.size()) / 2, 2});
    return std::string(check(CopyBlocks<Host>{.k_cache = keys, .pairs = pairs}).message());
  };
  EXPECT_NE(copy({0, 1, 2, 3}).find("pairs[1] has the target 3; it must be in 0..2"), std::string::npos);
  EXPECT_NE(copy({-1, 1}).find("pairs[0] has the source -1; it must be in 0..2"), std::string::npos);
  EXPECT_EQ(copy({0, 1, 0, 2}), "ok");  // a source may occur twice
  EXPECT_EQ(copy({2, 0}), "ok");
  EXPECT_NE(copy({3, 1}).find("pairs[0] has the source 3; it must be in 0..2"), std::string::npos);
  EXPECT_NE(copy({0, -1}).find("pairs[0] has the target -1; it must be in 0..2"), std::string::npos);
  EXPECT_NE(copy({1, 1}).find("pairs[0] has the source 1, which is a target too"), std::string::npos);
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
