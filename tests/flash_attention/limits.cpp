// Scalars that mean "no limit" by being huge, and what is far behind the largest score.
#include <inlay/ops/flash_attention.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/backends.hpp"

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
        causal.atten_mask = {};
        auto out = result(causal, run);
        for (index i = 0; i < queries; ++i)
          for (index d = 0; d < dim; ++d)
            ASSERT_EQ(std::isfinite(out[i * dim + d]), i < key || d != 2) << i << " " << d;
        causal.atten_mask = {static_cast<const void*>(hidden.data()), DType::boolean, {1, 1, 1, length}};
        out = result(causal, run);
        for (index i = 0; i < queries * dim; ++i) ASSERT_TRUE(std::isfinite(out[i])) << i;
      });
    }
}

}  // namespace
}  // namespace inlay::test
