// What the cases of flash_attention and incre_flash_attention share. A case has everything that it needs, so that
// backends start from the same bytes; each operator derives its own, with op(). What is optional is absent at first,
// but for the scales of an int8 K and V.
#pragma once

#include <optional>

#include "tests/support/attention.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/describe.hpp"

namespace inlay::test {

struct Shape {
  index batch = 1, queries = 1, keys = 1, kv_heads = 1, group = 1, dim = 64, v_dim = 64;
};

struct AttentionCase {
  Permuted q, k, v, out;
  Tensor<3> lse;
  Tensor<1> alibi, sinks;
  Tensor<4> k_scale, k_offset, v_scale, v_offset;
  float scale = 0, softcap = 0;
  BiasOrder order = BiasOrder::scale_bias_softcap;
  bool causal = false;
  index left = -1;
  index longest;  // most keys of a sequence
  double magnitude;

  AttentionCase(const Shape& s, Rng& rng, DType type, DType kv, DType out_type, Layout layout, bool swap)
      : q(type, {s.batch, s.queries, s.kv_heads * s.group, s.dim}, layout, swap),
        k(kv, {s.batch, s.keys, s.kv_heads, s.dim}, layout, swap),
        v(kv, {s.batch, s.keys, s.kv_heads, s.v_dim}, layout, swap),
        out(out_type, {s.batch, s.queries, s.kv_heads * s.group, s.v_dim}, layout, swap),
        lse(DType::f32, {s.batch, s.queries, s.kv_heads * s.group}),
        longest(s.keys),
        magnitude(0.3 * std::sqrt(static_cast<double>(s.dim)) + 1) {
    q.memory.uniform(rng);
    fill_kv(k.memory, rng);
    fill_kv(v.memory, rng);
    if (kv == DType::i8) k_scale = v_scale = Tensor<4>(DType::f32, {1, 1, 1, 1}).fill(1.0 / 128);
    out.memory.poison();
    lse.poison();
  }

  // The operator with what both call by the same name.
  template <class Op> Op common() {
    Op op{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse};
    op.alibi_slopes = alibi, op.sinks = sinks;
    op.k_scale = k_scale, op.k_offset = k_offset;
    op.v_scale = v_scale, op.v_offset = v_offset;
    op.scale = scale, op.softcap = softcap, op.bias_order = order;
    op.causal = causal, op.window_left = left;
    return op;
  }
};

inline double ulps(const AttentionCase& c) { return attention_ulps(c.q.memory.extents()[3], c.longest, c.magnitude); }

template <class Case> void compare(const Case& start) {
  Case expected = start;
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  std::optional<Case> first;  // of this level: all numbers of threads give its bits
  std::string level;
  on_every_backend([&](const std::string& label, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    if (got.out.memory.dtype() == DType::i8) {
      // A value that lies between two integers to within its error may go either way.
      for (index i = 0; i < got.out.memory.size(); ++i)
        ASSERT_LE(std::abs(got.out.memory.get(i) - expected.out.memory.get(i)), 1) << i;
    } else {
      expect_close_attention(got.out.memory, expected.out.memory, ulps(start), 1);
    }
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
