// Partitions and windows of any size.
#include <inlay/ops/paged_attention.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

TEST(paged_attention, partitions_and_windows_of_any_size) {
  constexpr index largest = std::numeric_limits<index>::max();
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> q(8), cache(6 * 4 * 8), out(8);
  for (float& x : q) x = values(rng);
  for (float& x : cache) x = values(rng);
  const std::vector<std::int32_t> table = {3, 1, 5, 0}, length = {13};
  on_every_host_backend([&](const std::string&, auto run) {
    PagedAttention<Host> op{.q = {q.data(), {1, 1, 8}},
                            .k = ConstView<5>(cache.data(), {6, 1, 1, 4, 8}),
                            .v = ConstView<5>(cache.data(), {6, 1, 1, 4, 8}),
                            .block_table = {table.data(), {1, 4}},
                            .kv_lens = {length.data(), {1}},
                            .out = {out.data(), {1, 1, 8}},
                            .partition = 0};
    ASSERT_TRUE(ok(run(op)));
    const std::vector<float> expected = out;
    for (index size : {largest, largest - 1, index{1} << 62, index{14}}) {
      out.assign(8, -7);
      op.partition = op.window_left = size;
      ASSERT_TRUE(ok(run(op)));
      EXPECT_EQ(out, expected) << size;
    }
    // Slots that share memory make blocks of any size; no kv_lens reaches so far. In one part: the scratch is
    // sized for all that the table could reach.
    op.partition = 0;
    op.k.extents[3] = op.v.extents[3] = index{1} << 40;
    op.k.strides[3] = op.v.strides[3] = 0;
    EXPECT_EQ(op.max_kv_len(), std::numeric_limits<std::int32_t>::max());
    ASSERT_TRUE(ok(run(op)));
    for (index d = 0; d < 8; ++d) EXPECT_NEAR(out[d], cache[3 * 32 + d], 1e-6);
  });
}

}  // namespace
}  // namespace inlay::test
