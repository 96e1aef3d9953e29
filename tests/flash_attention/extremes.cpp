// Scalars that mean "no limit" by being huge, what is far behind the largest score, and sums that vanish.
#include <inlay/core/online_softmax.hpp>

#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

constexpr index largest = std::numeric_limits<index>::max();

class Limits : public ::testing::Test {
 protected:
  Limits() {
    std::mt19937_64 rng(1);
    std::uniform_real_distribution<float> values(-1, 1);
    for (auto* list : {&q_, &k_, &v_})
      for (float& x : *list) x = values(rng);
  }
  FlashAttention<Host> op(index queries = length) {
    return {.q = {q_.data(), {1, queries, 1, dim}},
            .k = {k_.data(), {1, length, 1, dim}},
            .v = {v_.data(), {1, length, 1, dim}},
            .out = {out_.data(), {1, queries, 1, dim}}};
  }
  template <class Run> std::vector<float> result(const FlashAttention<Host>& op, Run&& run) {
    out_.assign(out_.size(), -7);
    EXPECT_TRUE(ok(run(op)));
    return out_;
  }

  static constexpr index length = 70, dim = 8;
  std::vector<float> q_ = std::vector<float>(length * dim), k_ = q_, v_ = q_, out_ = q_;
};

TEST_F(Limits, windows_of_any_size) {
  on_every_host_backend([&](const std::string&, auto run) {
    FlashAttention<Host> all = op();
    const auto expected = result(all, run);
    for (index size : {largest, largest - 1, largest - length, index{1} << 62}) {
      all.window_right = size;
      EXPECT_EQ(result(all, run), expected) << size;
      all.window_left = size;
      EXPECT_EQ(result(all, run), expected) << size;
    }
  });
}

TEST_F(Limits, positions_far_from_the_keys) {
  std::int64_t start = 0;
  FlashAttention<Host> far = op(2);
  far.q_start = {&start, {1}};
  for (index position : {largest, largest - 1, (index{1} << 53) + 1, -largest - 1}) {
    start = position;
    expect_refused(far, {"q_start has " + std::to_string(position), "at 0", "-2^53..2^53"});
  }
  on_every_host_backend([&](const std::string&, auto run) {
    start = index{1} << 53;
    const auto expected = result(op(2), run);
    EXPECT_EQ(result(far, run), expected);  // behind all keys, which it sees
    far.window_left = 0;
    EXPECT_EQ(result(far, run)[0], 0);  // none is so near
    start = -start;
    EXPECT_EQ(result(far, run), expected);
    far.causal = true;
    EXPECT_EQ(result(far, run)[0], 0);
    far.causal = false, far.window_left = -1;
  });
}

// Lengths and tables that no sequence of i64 lengths can fill.
TEST_F(Limits, products_of_extents) {
  const std::int64_t none = 0;
  FlashAttention<Host> paged = op(0);
  paged.k.extents = paged.v.extents = {0, index{1} << 40, 1, dim};
  paged.k.strides = paged.v.strides = {dim, dim, dim, 1};
  paged.kv_lens = {&none, {1}};
  paged.block_table = {static_cast<const std::int32_t*>(nullptr), {1, 0}, {1 << 20, 1}};
  EXPECT_TRUE(ok(check(paged)));
  paged.block_table = {reinterpret_cast<const std::int32_t*>(&none), {1, index{1} << 40}};
  expect_refused(paged, {"block_table", "2^57"});
  // A packed mask is as long as the product of queries and keys.
  const std::uint8_t bits[1] = {};
  const std::int64_t ends[2] = {0, 1};
  FlashAttention<Host> masked = op(3);
  masked.k.extents[1] = masked.v.extents[1] = index{1} << 56;
  masked.k.strides[1] = masked.v.strides[1] = 0;
  masked.k.strides[0] = masked.v.strides[0] = 0;
  masked.k.extents[3] = masked.v.extents[3] = masked.q.extents[3] = masked.out.extents[3] = 1;
  masked.k.dtype = masked.v.dtype = DType::i8;
  masked.k_scale = masked.v_scale = {k_.data(), {1, 1, 1, 1}};
  masked.packed_mask = {bits, {1}};
  masked.mask_indptr = {ends, {2}};
  masked.out.strides = {1, 1, 1, 1};
  expect_refused(masked, {"mask_indptr", "gives sequence 0 1 bytes"});
}

// A weight that is too small for f32 is 0, and what is hidden has weight 0: only the second keeps V from the row.
TEST_F(Limits, a_visible_v_that_is_not_finite_shows_whatever_its_weight) {
  constexpr index key = 3;
  for (float& x : q_) x = 1;
  for (index d = 0; d < dim; ++d) k_[key * dim + d] = -500;
  for (index queries : {index{5}, length})
    for (float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      v_[key * dim + 2] = bad;
      FlashAttention<Host> causal = op(queries);
      causal.causal = true;
      std::int64_t start = 0;
      causal.q_start = {&start, {1}};
      std::vector<std::uint8_t> hidden(length);
      hidden[key] = 1;
      on_every_host_backend([&](const std::string&, auto run) {
        causal.mask = {};
        auto out = result(causal, run);
        for (index i = 0; i < queries; ++i)
          for (index d = 0; d < dim; ++d)
            ASSERT_EQ(std::isfinite(out[i * dim + d]), i < key || d != 2) << i << " " << d;
        causal.mask = {static_cast<const void*>(hidden.data()), DType::boolean, {1, 1, 1, length}};
        out = result(causal, run);
        for (index i = 0; i < queries * dim; ++i) ASSERT_TRUE(std::isfinite(out[i])) << i;
      });
    }
}

// How many keys without a weight follow in the sum depends on the chunk: -0 + 0 is 0.
TEST(flash_attention, sums_that_vanish_are_zero_without_a_sign) {
  constexpr index keys = cpu::shared_unit_rows + 9;
  Rng rng(23);
  Case c = make({.queries = keys, .keys = keys, .kv_heads = 1, .group = 1, .dim = 2, .v_dim = 3}, rng);
  c.causal = true;
  c.scale = 1;
  c.k.memory.fill(0), c.v.memory.fill(0);
  for (index i = 0; i < keys; ++i) c.q.set(0, i, 0, 0, 1);
  c.k.set(0, 0, 0, 0, 2);
  for (index j = 1; j < keys; ++j) c.v.set(0, j, 0, 1, -std::numeric_limits<float>::denorm_min());  // times exp(-2)
  on_every_cpu([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < keys; ++i)
      for (index d = 0; d < 3; ++d) {
        ASSERT_EQ(got.out.get(0, i, 0, d), 0) << i << ' ' << d;
        ASSERT_FALSE(std::signbit(got.out.get(0, i, 0, d))) << i << ' ' << d;
      }
  });
}

TEST(flash_attention, merged_halves_give_the_whole) {
  Rng rng(11);
  Case c = make({.queries = 3, .keys = 90, .kv_heads = 1, .group = 2, .dim = 16, .v_dim = 16}, rng);
  Reference reference;
  Case whole = c, left = c, right = c;
  ASSERT_TRUE(ok(run(reference, whole.op())));
  FlashAttention<Host> op = left.op();
  op.k = op.k.slice(1, 0, 40), op.v = op.v.slice(1, 0, 40);
  ASSERT_TRUE(ok(run(reference, op)));
  op = right.op();
  op.k = op.k.slice(1, 40, 50), op.v = op.v.slice(1, 40, 50);
  ASSERT_TRUE(ok(run(reference, op)));
  for (index r = 0; r < 6; ++r) {
    const auto both = merge_lse(left.lse.get(r), right.lse.get(r));
    EXPECT_NEAR(both.lse, whole.lse.get(r), 1e-6);
    for (index d = 0; d < 16; ++d)
      EXPECT_NEAR(left.out.memory.get(r * 16 + d) * both.scale_a + right.out.memory.get(r * 16 + d) * both.scale_b,
                  whole.out.memory.get(r * 16 + d), 1e-6);
  }
}

}  // namespace
}  // namespace inlay::test
