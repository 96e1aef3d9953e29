// One case of flash_attention: everything that it needs, so that backends start from the same bytes.
#pragma once

#include <inlay/ops/flash_attention.hpp>

#include <optional>

#include "tests/support/attention.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"

namespace inlay::test {

struct Shape {
  index batch = 1, queries = 1, keys = 1, kv_heads = 1, group = 1, dim = 64, v_dim = 64;
};

struct Case {
  Permuted q, k, v, out;
  Tensor<3> lse;
  Tensor<1> q_indptr, kv_indptr, kv_lens, q_start, mask_indptr, packed_mask, alibi, sinks;
  Tensor<2> table;
  Tensor<4> bias, mask, k_scale, k_offset, v_scale, v_offset;
  bool ragged_q = false, ragged_kv = false, lens = false, paged = false, starts = false, biased = false, masked = false;
  bool packed = false, alibied = false, sinking = false, offsets = false;
  float scale = 0, softcap = 0;
  BiasOrder order = BiasOrder::scale_bias_softcap;
  bool causal = false;
  index left = -1, right = -1;
  index longest = 0;
  double magnitude = 0;

  FlashAttention<Host> op() {
    FlashAttention<Host> op{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse};
    if (ragged_q) op.q_indptr = q_indptr;
    if (ragged_kv) op.kv_indptr = kv_indptr;
    if (lens || paged) op.kv_lens = kv_lens;
    if (paged) op.block_table = table;
    if (starts) op.q_start = q_start;
    if (biased) op.bias = bias;
    if (masked) op.atten_mask = mask;
    if (packed) op.packed_mask = packed_mask, op.mask_indptr = mask_indptr;
    if (alibied) op.alibi_slopes = alibi;
    if (sinking) op.sinks = sinks;
    if (k.memory.dtype() == DType::i8) op.k_scale = k_scale;
    if (k.memory.dtype() == DType::i8 && offsets) op.k_offset = k_offset;
    if (v.memory.dtype() == DType::i8) op.v_scale = v_scale;
    if (v.memory.dtype() == DType::i8 && offsets) op.v_offset = v_offset;
    op.scale = scale, op.softcap = softcap, op.bias_order = order;
    op.causal = causal, op.window_left = left, op.window_right = right;
    return op;
  }
};

inline Case make(const Shape& s, Rng& rng, DType type = DType::f32, DType kv = DType::f32, Layout layout = {},
                 bool swap = false) {
  const index heads = s.kv_heads * s.group;
  Case c;
  c.q = {type, {s.batch, s.queries, heads, s.dim}, layout, swap};
  c.k = {kv, {s.batch, s.keys, s.kv_heads, s.dim}, layout, swap};
  c.v = {kv, {s.batch, s.keys, s.kv_heads, s.v_dim}, layout, swap};
  c.out = {type, {s.batch, s.queries, heads, s.v_dim}, layout, swap};
  c.lse = {DType::f32, {s.batch, s.queries, heads}};
  c.k_scale = Tensor<4>(DType::f32, {1, 1, 1, 1}).fill(1.0 / 128);
  c.v_scale = Tensor<4>(DType::f32, {1, 1, 1, 1}).fill(1.0 / 128);
  c.q.memory.uniform(rng);
  fill_kv(c.k.memory, rng);
  fill_kv(c.v.memory, rng);
  c.out.memory.poison();
  c.lse.poison();
  c.longest = s.keys;
  c.magnitude = 0.3 * std::sqrt(static_cast<double>(s.dim)) + 1;
  return c;
}

inline double ulps(const Case& c) { return attention_ulps(c.q.memory.extents()[3], c.longest, c.magnitude); }

inline void compare(const Case& start, double largest_v = 1) {
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  std::optional<Case> first;  // of this level: all numbers of threads give its bits
  std::string level;
  on_every_backend([&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close_attention(got.out.memory, expected.out.memory, ulps(start), largest_v);
    expect_close_lse(got.lse, expected.lse, ulps(start));
    EXPECT_TRUE(got.out.memory.gaps_untouched());
    if (const std::string now = label.substr(0, label.find(',')); now != level) {
      level = now;
      first = got;
    } else {
      expect_equal(got.out.memory, first->out.memory);
      expect_equal(got.lse, first->lse);
    }
  });
}

}  // namespace inlay::test
