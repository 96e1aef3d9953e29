#include <inlay/ops/flash_attention.hpp>

#include "tests/incre_flash_attention/case.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
namespace {

constexpr std::array kv_dtypes{DType::f32, DType::f16, DType::bf16, DType::i8};

TEST(incre_flash_attention, head_dims) {
  Rng rng(1);
  std::vector<std::pair<index, index>> dims;
  for (index dim : head_dims) dims.push_back({dim, dim});
  for (const auto& pair : {std::pair<index, index>{192, 128}, {576, 512}, {7, 1}}) dims.push_back(pair);
  int turn = 0;
  for (const auto& [dim, v_dim] : dims)
    for (index group : {1, 3, 8}) {
      const DType type = float_types[turn % 3], kv = kv_dtypes[turn % 4];
      const Case c = make({.batch = 2, .keys = 70, .kv_heads = 1, .group = group, .dim = dim, .v_dim = v_dim}, rng,
                          type, kv, float_types[(turn + 1) % 3], layouts[turn % 3], turn % 2);
      ++turn;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(incre_flash_attention, lengths_around_the_tiles_and_splits) {
  Rng rng(2);
  for (index slots : {1, 2, 3, 4, 5, 63, 64, 65, 129, 511, 512, 513, 1030}) {
    Case c = make({.batch = 1, .keys = slots, .kv_heads = 2, .group = 7, .dim = 9, .v_dim = 17}, rng, DType::f32,
                  kv_dtypes[slots % 4]);
    ASSERT_NO_FATAL_FAILURE(compare(c));
    c.causal = true, c.left = 5;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(incre_flash_attention, random_combinations) {
  Rng rng(3);
  const auto draw = [&](index low, index high) { return std::uniform_int_distribution<index>(low, high)(rng); };
  const auto chance = [&](int of) { return draw(1, of) == 1; };
  for (int turn = 0; turn < 150; ++turn) {
    const Shape s{.batch = draw(1, 3),
                  .queries = chance(2) ? 1 : draw(1, 4),
                  .keys = draw(1, 150),
                  .kv_heads = draw(1, 3),
                  .group = draw(1, 5),
                  .dim = draw(1, 40),
                  .v_dim = draw(1, 40)};
    const index heads = s.kv_heads * s.group;
    const DType type = float_types[draw(0, 2)], kv = kv_dtypes[draw(0, 3)];
    const DType out = chance(4) ? DType::i8 : float_types[draw(0, 2)];
    const Layout layout = layouts[draw(0, 2)];
    SCOPED_TRACE(describe("turn", turn));
    Case c = make(s, rng, type, kv, out, layout, chance(2));
    if (chance(2)) {
      c.lengths = {chance(2) ? DType::i32 : DType::i64, {chance(2) ? s.batch : 1}};
      c.lengths.integers(rng, 0, s.keys);
    }
    if (chance(4)) {
      for (index b = 0; b < s.batch; ++b) {
        const index slots = c.lengths.present() ? s.keys : draw(0, s.keys);
        c.k_parts.push_back({kv, {slots, s.kv_heads, s.dim}, layout});
        c.v_parts.push_back({kv, {slots, s.kv_heads, s.v_dim}, layout});
        fill_kv(c.k_parts.back(), rng);
        fill_kv(c.v_parts.back(), rng);
      }
    }
    c.left_padding = chance(3);
    c.padding = draw(-2, 20);
    if (chance(3)) {
      c.pse = {float_types[draw(0, 2)],
               {chance(2) ? s.batch : 1, chance(2) ? heads : 1, chance(2) ? s.queries : 1, s.keys + 2},
               layout};
      c.pse.uniform(rng);
      for (index i = 0; i < c.pse.size() / 9; ++i) c.pse.set(draw(0, c.pse.size() - 1), -HUGE_VAL);
    }
    if (chance(3)) {
      c.mask = {DType::boolean, {chance(2) ? s.batch : 1, chance(2) ? s.queries : 1, s.keys + 1}, layout};
      c.mask.integers(rng, 0, 1);
    }
    if (chance(4)) c.alibi = alibi_slopes(heads);
    if (chance(4)) c.sinks = random_sinks(heads, rng);
    c.causal = chance(2);
    c.left = chance(3) ? draw(0, 70) : -1;
    c.softcap = chance(4) ? 3.0f : 0.0f;
    c.order = bias_orders[draw(0, 2)];
    if (kv == DType::i8) {
      const index kind = draw(0, 2);  // tensor, channel, token
      const auto quant = [&](index width) {
        return kind == 0   ? Tensor<4>(DType::f32, {1, 1, 1, 1})
               : kind == 1 ? Tensor<4>(DType::f32, {1, 1, s.kv_heads, width})
                           : Tensor<4>(DType::f32, {s.batch, s.keys, chance(2) ? s.kv_heads : 1, 1}, layout);
      };
      if (!c.k_parts.empty() && kind == 2)  // a list has the slots of its longest part
        c.k_parts[0] = Tensor<3>(kv, {s.keys, s.kv_heads, s.dim}).fill(1),
        c.v_parts[0] = Tensor<3>(kv, {s.keys, s.kv_heads, s.v_dim}).fill(2);
      c.k_scale = quant(s.dim).uniform(rng, 0.002, 0.008);
      c.v_scale = quant(s.v_dim).uniform(rng, 0.002, 0.004);
      if (chance(2)) {
        c.k_offset = quant(s.dim).uniform(rng, -20, 20);
        c.v_offset = quant(s.v_dim).uniform(rng, -20, 20);
      }
    }
    if (out == DType::i8) {
      c.out_scale = {DType::f32, {chance(2) ? heads : 1, chance(2) ? s.v_dim : 1}};
      c.out_scale.uniform(rng, 50, 300);
      c.out_offset = {DType::f32, {chance(2) ? heads : 1, chance(2) ? s.v_dim : 1}};
      c.out_offset.uniform(rng, -10, 10);
    }
    c.magnitude += c.alibi.present() ? 100 : 0;
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

TEST(incre_flash_attention, no_keys_give_zero) {
  Rng rng(4);
  Case c = make({.batch = 3, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.lengths = list_of(DType::i32, {0, 20, 15});
  c.left_padding = true;
  c.padding = 6;  // leaves room for 14 keys
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < got.out.memory.size(); ++i) ASSERT_EQ(got.out.memory.get(i), 0);
    for (index i = 0; i < got.lse.size(); ++i) ASSERT_EQ(got.lse.get(i), -HUGE_VAL);
  });
}

// The sink is all that its denominator has.
TEST(incre_flash_attention, a_row_without_keys_has_its_sink_as_lse) {
  Rng rng(14);
  Case start = make({.batch = 2, .keys = 20, .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8}, rng);
  start.lengths = list_of(DType::i32, {0, 20});
  start.sinks = Tensor<1>(DType::f32, {2});
  start.sinks.set(0, 1.5), start.sinks.set(1, -HUGE_VAL);
  ASSERT_NO_FATAL_FAILURE(compare(start));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    for (index i = 0; i < 16; ++i) ASSERT_EQ(got.out.memory.get(i), 0);
    EXPECT_EQ(got.lse.get(0), 1.5);
    EXPECT_EQ(got.lse.get(1), -HUGE_VAL);
  });
}

TEST(incre_flash_attention, left_padding_reads_the_slots_it_should) {
  Rng rng(5);
  Case c = make({.keys = 20, .dim = 8, .v_dim = 8}, rng);
  c.lengths = Tensor<1>(DType::i32, {1}).fill(1);
  c.left_padding = true;
  for (index padding : {-4, 0, 3, 19}) {
    c.padding = padding;
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d)
        ASSERT_EQ(got.out.get(0, 0, 0, d), c.v.get(0, 19 - std::max<index>(padding, 0), 0, d));
    });
  }
}

TEST(incre_flash_attention, masked_values_never_reach_the_output) {
  Rng rng(6);
  for (double bad : {std::nan(""), HUGE_VAL}) {
    Case clean = make({.keys = 600, .kv_heads = 1, .group = 3, .dim = 10, .v_dim = 12}, rng, DType::f32, DType::f16);
    clean.lengths = Tensor<1>(DType::i32, {1}).fill(590);
    clean.mask = Tensor<3>(DType::boolean, {1, 1, 600}).fill(0);
    for (index j : {0, 77, 300, 589}) clean.mask.set(j, 1);
    Case expected = clean;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    Case poisoned = clean;
    for (index j : {0, 77, 300, 589, 590, 599})
      for (index d = 0; d < 12; ++d) {
        if (d < 10) poisoned.k.set(0, j, 0, d, bad);
        poisoned.v.set(0, j, 0, d, bad);
      }
    on_every_backend([&](const std::string&, auto run) {
      Case got = poisoned;
      ASSERT_TRUE(ok(run(got.op())));
      expect_close_attention(got.out.memory, expected.out.memory, attention_ulps(10, 600, 2), 1);
    });
  }
}

TEST(incre_flash_attention, a_visible_nan_gives_nan) {
  Rng rng(8);
  Case c = make({.keys = 700, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  c.k.set(0, 600, 1, 2, std::nan(""));
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (index h = 0; h < 4; ++h) ASSERT_EQ(std::isnan(got.out.get(0, 0, h, 1)), h >= 2);
  });
}

TEST(incre_flash_attention, agrees_with_flash_attention) {
  Rng rng(9);
  Case c = make({.batch = 2, .queries = 3, .keys = 100, .kv_heads = 2, .group = 3, .dim = 32, .v_dim = 16}, rng);
  c.causal = true;
  Case flash = c;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  ASSERT_TRUE(ok(run(reference, FlashAttention<Host>{.q = flash.q.view(),
                                                     .k = flash.k.view(),
                                                     .v = flash.v.view(),
                                                     .out = flash.out.view(),
                                                     .lse = flash.lse,
                                                     .causal = true})));
  expect_equal(c.out.memory, flash.out.memory);
  expect_equal(c.lse, flash.lse);
}

TEST(incre_flash_attention, subnormals) {
  Rng rng(20);
  for (DType type : float_types)
    for (index slots : subnormal_sizes)
      for (bool small_v : {false, true}) {
        SCOPED_TRACE(small_v ? "small v" : "small q and k");
        Case c = make({.keys = slots, .group = 3, .dim = 20, .v_dim = 24}, rng, type, type);
        if (small_v)
          subnormals(c.v.memory, rng);
        else
          subnormals(c.q.memory, rng, slots % 2), subnormals(c.k.memory, rng);
        with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
          // For each key an operand, a product and a sum, which round to the least number or are lost.
          const double all_lost = 3 * static_cast<double>(slots) * (lost + underflow(DType::f32)),
                       largest_v = small_v ? 2 * smallest_normal(type) : 1;
          expect_close_attention(got.out.memory, expected.out.memory, ulps(c), largest_v, all_lost);
          expect_close_lse(got.lse, expected.lse, ulps(c));
        });
      }
}

TEST(incre_flash_attention, refuses_what_the_contract_does_not_cover) {
  Rng rng(10);
  Case c = make({.batch = 2, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  EXPECT_TRUE(ok(check(c.op())));
  IncreFlashAttention<Host> op = c.op();
  Tensor<1> lengths(DType::i32, {2});
  lengths.set(0, 20), lengths.set(1, 21);
  op.actual_seq_lengths = lengths;
  expect_refused(op, {"actual_seq_lengths", "21", "0..20"});
  lengths.set(1, -1);
  expect_refused(op, {"actual_seq_lengths", "-1"});
  op = c.op();
  op.bias_order = static_cast<BiasOrder>(3);
  expect_refused(op, {"bias_order", "3", "0..2"});
  op = c.op();
  op.k = {};
  expect_refused(op, {"k", "k_list"});
  op = c.op();
  Tensor<2> out_scale(DType::f32, {1, 1});
  op.out_scale = out_scale;
  expect_refused(op, {"out_scale", "i8"});
  op = c.op();
  Tensor<4> pse(DType::f32, {1, 4, 1, 19});
  op.pse_shift = pse;
  expect_refused(op, {"pse_shift", "19", "20"});
  op = c.op();
  Tensor<4> k_scale(DType::f32, {1, 1, 1, 1});
  op.k_scale = k_scale;
  expect_refused(op, {"k_scale", "i8"});
  Case listed = c;
  for (int b = 0; b < 2; ++b) {
    listed.k_parts.push_back({DType::f32, {5, 2, 8}});
    listed.v_parts.push_back({b == 0 ? DType::f32 : DType::f16, {5, 2, 8}});
  }
  expect_refused(listed.op(), {"v_list", "f16", "at 1", "f32"});
  listed.v_parts.pop_back();
  expect_refused(listed.op(), {"v_list", "k_list"});
}

}  // namespace
}  // namespace inlay::test
