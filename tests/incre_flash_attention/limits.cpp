// Empty batches, scalars of any size, and scales that are not finite.
#include <inlay/ops/incre_flash_attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

constexpr index largest = std::numeric_limits<index>::max();

TEST(incre_flash_attention, an_empty_batch_needs_no_workspace) {
  std::vector<float> x(8);
  const IncreFlashAttention<Host> op{.q = {x.data(), {0, 1, 1, 8}},
                                     .k = {x.data(), {0, 4, 1, 8}},
                                     .v = {x.data(), {0, 4, 1, 8}},
                                     .out = {x.data(), {0, 1, 1, 8}}};
  on_every_host_backend([&](const std::string&, auto run) { EXPECT_TRUE(ok(run(op))); });
  Cpu cpu;
  EXPECT_EQ(workspace_bytes(cpu, op), 0u);
}

TEST(incre_flash_attention, padding_and_windows_of_any_size) {
  std::vector<float> q(8, 1), k(4 * 8, 1), v = k, out(8), lse(1);
  std::int64_t lengths[] = {3};
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, 1, 8}},
                                 .k = {k.data(), {1, 4, 1, 8}},
                                 .v = {v.data(), {1, 4, 1, 8}},
                                 .out = {out.data(), {1, 1, 1, 8}},
                                 .lse = {lse.data(), {1, 1, 1}},
                                 .actual_seq_lengths = {lengths, {1}},
                                 .window_left = largest,
                                 .kv_left_padding = true};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(out[0], 1);
    for (index padding : {index{2}, index{5}, largest - 1, largest}) {  // more than the slots have: no key is left
      op.kv_padding = padding;
      ASSERT_TRUE(ok(run(op)));
      EXPECT_EQ(out[0], 0) << padding;
      EXPECT_EQ(lse[0], -HUGE_VALF) << padding;
    }
  });
}

// Offsets of heads are whole bytes, backwards too: rounded up they were a byte off.
TEST(incre_flash_attention, heads_in_reverse) {
  constexpr index slots = 5, heads = 3, dim = 8;
  std::vector<float> q(heads * dim, 1), kv(slots * heads * dim), out(heads * dim), reversed = out;
  for (std::size_t i = 0; i < kv.size(); ++i) kv[i] = static_cast<float>(i % 7) - 3;
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, heads, dim}},
                                 .k = {kv.data(), {1, slots, heads, dim}},
                                 .v = {kv.data(), {1, slots, heads, dim}},
                                 .out = {out.data(), {1, 1, heads, dim}}};
    ASSERT_TRUE(ok(run(op)));
    op.k = op.v = {kv.data() + (heads - 1) * dim, {1, slots, heads, dim}, {slots * heads * dim, heads * dim, -dim, 1}};
    op.out.data = reversed.data();
    ASSERT_TRUE(ok(run(op)));
    for (index h = 0; h < heads; ++h)
      for (index d = 0; d < dim; ++d) ASSERT_EQ(reversed[(heads - 1 - h) * dim + d], out[h * dim + d]) << h;
  });
}

// A weight of 0 because the score is far behind is not a mask: NaN times 0 is NaN.
TEST(incre_flash_attention, a_visible_scale_of_nan_shows_whatever_its_weight) {
  constexpr index slots = 70, dim = 8, key = 66;
  std::vector<float> q(dim, 1), out(dim), k_scale(slots, 1), v_scale(slots, 1);
  std::vector<std::int8_t> k(slots * dim, 1), v = k;
  std::vector<std::uint8_t> hidden(slots);
  for (index d = 0; d < dim; ++d) k[key * dim + d] = -100;
  v_scale[key] = std::nanf("");
  on_every_host_backend([&](const std::string&, auto run) {
    IncreFlashAttention<Host> op{.q = {q.data(), {1, 1, 1, dim}},
                                 .k = {k.data(), {1, slots, 1, dim}},
                                 .v = {v.data(), {1, slots, 1, dim}},
                                 .out = {out.data(), {1, 1, 1, dim}},
                                 .k_scale = {k_scale.data(), {1, slots, 1, 1}},
                                 .v_scale = {v_scale.data(), {1, slots, 1, 1}},
                                 .scale = 1};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_TRUE(std::isnan(out[0]));
    hidden[key] = 1;
    op.atten_mask = {static_cast<const void*>(hidden.data()), DType::boolean, {1, 1, slots}};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(out[0], 1);
    hidden[key] = 0;
  });
}

}  // namespace
}  // namespace inlay::test
