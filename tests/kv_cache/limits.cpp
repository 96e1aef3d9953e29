// Pairs whose order would count, and lists that cannot be right.
#include <inlay/ops/kv_cache.hpp>

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

class Pairs : public ::testing::Test {
 protected:
  std::vector<float> cache_ = {0, 1, 2, 3};
  PagedView<> pool_{cache_.data(), DType::f32, {4, 1, 1, 1, 1}};
};

TEST_F(Pairs, that_overlap_are_refused_before_anything_is_copied) {
  const std::vector<float> before = cache_;
  const auto expect_order_counts = [&](std::vector<std::int64_t> list, std::string_view why) {
    const CopyBlocks<Host> op{.k_cache = pool_, .pairs = {list.data(), {static_cast<index>(list.size()) / 2, 2}}};
    expect_refused(op, {"pairs", why});
    on_every_host_backend([&](const std::string&, auto run) { EXPECT_FALSE(run(op).ok()); });
    EXPECT_EQ(cache_, before);
  };
  expect_order_counts({0, 1, 1, 2}, "which is a target too");  // 2 would be the old 1, or 0
  expect_order_counts({1, 2, 0, 1}, "which is a target too");
  expect_order_counts({0, 1, 1, 0}, "which is a target too");
  expect_order_counts({0, 2, 1, 2}, "target 2 twice");
  expect_order_counts({3, 3}, "which is a target too");
}

TEST_F(Pairs, of_one_source_for_many_targets) {
  const std::vector<std::int64_t> list = {2, 0, 2, 1, 2, 3};
  on_every_host_backend([&](const std::string&, auto run) {
    cache_ = {0, 1, 2, 3};
    ASSERT_TRUE(ok(run(CopyBlocks<Host>{.k_cache = pool_, .pairs = {list.data(), {3, 2}}})));
    EXPECT_EQ(cache_, std::vector<float>(4, 2));
  });
}

// Between two pools the same blocks may be read and written.
TEST_F(Pairs, of_two_pools) {
  std::vector<float> other(4, 9);
  const std::vector<std::int64_t> list = {0, 1, 1, 0};
  ASSERT_TRUE(ok(run(Reference(), SwapBlocks<>{.source = pool_,
                                               .target = PagedView<>(other.data(), DType::f32, {4, 1, 1, 1, 1}),
                                               .pairs = {list.data(), {2, 2}}})));
  EXPECT_EQ(other, (std::vector<float>{1, 0, 9, 9}));
}

// More pairs than blocks name a target twice; nobody goes through 2^40 of them to find out.
TEST_F(Pairs, without_end) {
  const std::int64_t pair[] = {0, 1};
  expect_refused(CopyBlocks<Host>{.k_cache = pool_, .pairs = ConstView<2>(pair, {index{1} << 40, 2}, {0, 1})},
                 {"pairs has the target 1 twice"});
}

// Values without elements beside keys that have some: whatever their other extents, there is nothing to copy (found by
// fuzzing).
TEST(copy_blocks, an_empty_cache_beside_a_full_one_is_done_at_once) {
  std::vector<float> keys(2 * 4 * 8);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<float>(i);
  const std::vector<std::int64_t> pair = {0, 1};
  const CopyBlocks<Host> op{.k_cache = {keys.data(), {2, 1, 1, 4, 8}},
                            .v_cache = View<5>(nullptr, DType::f32, {2, 1, 1, index{1} << 40, 0}),
                            .pairs = ConstView<2>(pair.data(), {1, 2})};
  ASSERT_TRUE(ok(run(Reference{}, op)));
  EXPECT_EQ(keys[32], keys[0]);
  EXPECT_EQ(keys[63], keys[31]);
}

}  // namespace
}  // namespace inlay::test
