// What the references and the kernels of attention share, by answers written by hand.
#include <inlay/core/attention.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

#include "tests/support/cases.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(attention, bias_orders) {
  const auto s = [](BiasOrder order) { return score({.scale = 0.5, .softcap = 2, .bias_order = order}, 3, 1); };
  EXPECT_DOUBLE_EQ(s(BiasOrder::scale_bias_softcap), 2 * std::tanh(2.5 / 2));
  EXPECT_DOUBLE_EQ(s(BiasOrder::scale_softcap_bias), 2 * std::tanh(1.5 / 2) + 1);
  EXPECT_DOUBLE_EQ(s(BiasOrder::bias_scale_softcap), 2 * std::tanh(2.0 / 2));
  EXPECT_EQ(score({.softcap = 2}, 3, -infinity), -infinity);
}

TEST(attention, scores_without_a_softcap) {
  const auto s = [](BiasOrder order) { return score({.scale = -0.5, .bias_order = order}, 3, 1); };
  EXPECT_EQ(s(BiasOrder::scale_bias_softcap), -0.5);
  EXPECT_EQ(s(BiasOrder::scale_softcap_bias), -0.5);
  EXPECT_EQ(s(BiasOrder::bias_scale_softcap), -2);
  EXPECT_EQ(score({.scale = -1, .bias_order = BiasOrder::bias_scale_softcap}, 3, -infinity), -infinity);
}

// Ascend: 0 multiplies by the scale and then adds pse, 1 adds it first.
TEST(attention, bias_order_of_a_pse_type) {
  const auto s = [](int pse_type) {
    return score({.scale = 0.5, .bias_order = *bias_order_of_pse_type(pse_type)}, 3, 1);
  };
  EXPECT_EQ(s(0), 0.5 * 3 + 1);
  EXPECT_EQ(s(1), 0.5 * (3 + 1));
  EXPECT_EQ(bias_order_of_pse_type(0), BiasOrder{});  // the default
  for (int other : {-1, 2, 3, 9}) EXPECT_EQ(bias_order_of_pse_type(other), std::nullopt);
}

TEST(attention, score_rule_of_an_operator) {
  FlashAttention<Host> op;
  EXPECT_EQ(score_rule(op, 64).scale, 0.125);
  EXPECT_EQ(score_rule(op, 1).scale, 1);
  EXPECT_EQ(score_rule(op, 64).softcap, 0);
  EXPECT_EQ(score_rule(op, 64).bias_order, BiasOrder::scale_bias_softcap);
  op.scale = -0.75f, op.softcap = 30, op.bias_order = BiasOrder::bias_scale_softcap;
  EXPECT_EQ(score_rule(op, 64).scale, -0.75);
  EXPECT_EQ(score_rule(op, 64).softcap, 30);
  EXPECT_EQ(score_rule(op, 64).bias_order, BiasOrder::bias_scale_softcap);
}

using Pair = std::pair<index, index>;
Pair pair_of(const KeyRange& r) { return r.empty() ? Pair{0, 0} : Pair{r.begin, r.end}; }

TEST(attention, visible_keys) {
  const auto range = [](index position, index kv_len, index left, index right) {
    return pair_of(visible_keys(position, kv_len, left, right));
  };
  EXPECT_EQ(range(4, 10, -1, -1), Pair(0, 10));
  EXPECT_EQ(range(4, 10, -1, 0), Pair(0, 5));
  EXPECT_EQ(range(4, 10, 2, 0), Pair(2, 5));
  EXPECT_EQ(range(4, 10, 0, 0), Pair(4, 5));
  EXPECT_EQ(range(4, 10, 0, 3), Pair(4, 8));
  EXPECT_EQ(range(4, 10, 0, -1), Pair(4, 10));
  EXPECT_EQ(range(4, 10, 4, -1), Pair(0, 10));
  EXPECT_EQ(range(4, 10, 5, -1), Pair(0, 10));
  EXPECT_EQ(range(4, 10, -1, 5), Pair(0, 10));
  EXPECT_EQ(range(4, 10, -1, 4), Pair(0, 9));
  EXPECT_EQ(range(-1, 10, -1, 0), Pair(0, 0));
  EXPECT_EQ(range(-1, 10, -1, 1), Pair(0, 1));
  EXPECT_EQ(range(20, 10, 3, -1), Pair(0, 0));
  EXPECT_EQ(range(12, 10, 3, -1), Pair(9, 10));
  EXPECT_EQ(range(12, 10, 2, -1), Pair(0, 0));
  EXPECT_EQ(range(0, 0, -1, -1), Pair(0, 0));
}

TEST(attention, packed_bits) {
  const unsigned char bits[] = {0x01, 0x82};
  for (index i = 0; i < 16; ++i) EXPECT_EQ(packed_bit(bits, i), i == 0 || i == 9 || i == 15) << i;
}

// The slopes that the authors' code gives for 8 and for 12 heads.
TEST(attention, alibi_slopes_of_the_paper) {
  for (index h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(alibi_slope(h, 8), std::pow(0.5, h + 1));
  for (index h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(alibi_slope(h, 12), std::pow(0.5, h + 1));
  for (index h = 8; h < 12; ++h) EXPECT_DOUBLE_EQ(alibi_slope(h, 12), std::pow(2.0, -0.5 - (h - 8)));
  EXPECT_DOUBLE_EQ(alibi_slope(0, 1), 1.0 / 256);
  EXPECT_DOUBLE_EQ(alibi_slope(2, 3), 0.25);  // beside 1/16 and 1/256
  EXPECT_DOUBLE_EQ(alibi_slope(15, 16), 1.0 / 256);
}

TEST(attention, ragged_views_keep_their_strides) {
  float memory[100];
  const View<3> tokens(memory, DType::f32, {5, 2, 3}, {12, 4, 1});
  const View<4> view = ragged(tokens);
  EXPECT_EQ(view.data, memory);
  EXPECT_EQ(view.extents, (std::array<index, 4>{1, 5, 2, 3}));
  EXPECT_EQ(offset(view, 0, 4, 1, 2), 4 * 12 + 4 + 2);
  const ConstView<4> same = ragged(ConstView<3>(tokens));
  EXPECT_EQ(same.extents, view.extents);
  EXPECT_EQ(offset(same, 0, 4, 1, 2), 4 * 12 + 4 + 2);
}

// Slots of a cache: keys from slot 0 on, or up to some slots before the last.
TEST(attention, key_slots) {
  Tensor<4> k(DType::f32, {3, 20, 1, 1});
  IncreFlashAttention<Host> op;
  op.k = op.v = k;
  EXPECT_EQ(pair_of(key_slots(op, 2)), Pair(0, 20));
  Tensor<1> lengths = list_of(DType::i64, {4, 0, 15});
  op.kv_lens = lengths;
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(0, 4));
  EXPECT_TRUE(key_slots(op, 1).empty());
  EXPECT_EQ(pair_of(key_slots(op, 2)), Pair(0, 15));
  op.kv_padding = 3;  // without kv_left_padding it says nothing
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(0, 4));
  op.kv_left_padding = true;
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(13, 17));
  EXPECT_EQ(pair_of(key_slots(op, 2)), Pair(2, 17));
  op.kv_padding = -3;
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(16, 20));
  op.kv_padding = 5;
  EXPECT_EQ(pair_of(key_slots(op, 2)), Pair(0, 15));
  op.kv_padding = 6;  // leaves room for 14
  EXPECT_TRUE(key_slots(op, 2).empty());
  EXPECT_EQ(key_slots(op, 2).end, 0);
  const Tensor<1> one = list_of(DType::i32, {7});
  op.kv_lens = one;
  op.kv_left_padding = false;
  EXPECT_EQ(pair_of(key_slots(op, 2)), Pair(0, 7));
}

TEST(attention, key_slots_of_a_list) {
  Tensor<3> longer(DType::f32, {20, 1, 1}), shorter(DType::f32, {6, 1, 1});
  const std::vector<ConstView<3>> list{longer, shorter};
  IncreFlashAttention<Host> op;
  op.k_list = op.v_list = list;
  EXPECT_EQ(op.max_slots(), 20);
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(0, 20));
  EXPECT_EQ(pair_of(key_slots(op, 1)), Pair(0, 6));
  op.kv_left_padding = true, op.kv_padding = 2;
  const Tensor<1> one = list_of(DType::i32, {3});
  op.kv_lens = one;
  EXPECT_EQ(pair_of(key_slots(op, 0)), Pair(15, 18));
  EXPECT_EQ(pair_of(key_slots(op, 1)), Pair(1, 4));
  EXPECT_EQ(op.keys(1).data, list[1].data);
}

TEST(attention, keys_of_a_sequence) {
  Tensor<4> k(DType::f16, {3, 20, 2, 4}, {.row_gap = 3}), v(DType::f16, {3, 20, 2, 5});
  IncreFlashAttention<Host> op;
  op.k = k, op.v = v;
  const ConstView<3> keys = op.keys(2), values = op.values(1);
  EXPECT_EQ(keys.extents, (std::array<index, 3>{20, 2, 4}));
  EXPECT_EQ(keys.strides, (std::array<index, 3>{2 * 7, 7, 1}));
  EXPECT_EQ(keys.data, static_cast<const std::uint16_t*>(k.view().data) + 2 * 20 * 2 * 7);
  EXPECT_EQ(values.extents, (std::array<index, 3>{20, 2, 5}));
  EXPECT_EQ(values.data, static_cast<const std::uint16_t*>(v.view().data) + 20 * 2 * 5);
}

TEST(attention, lengths_of_sequences) {
  Tensor<4> q(DType::f32, {3, 4, 1, 1}), k(DType::f32, {3, 20, 1, 1});
  FlashAttention<Host> op;
  op.q = q, op.k = k;
  EXPECT_EQ(op.batch(), 3);
  EXPECT_EQ(query_count(op, 2), 4);
  EXPECT_EQ(key_count(op, 2), 20);
  EXPECT_EQ(op.max_kv_len(), 20);
  const Tensor<1> lens = list_of(DType::i64, {5, 0, 7});
  op.kv_lens = lens;
  for (index b = 0; b < 3; ++b) EXPECT_EQ(key_count(op, b), (std::array{5, 0, 7})[static_cast<std::size_t>(b)]);
  const Tensor<2> table(DType::i32, {3, 6});
  op.block_table = table;
  EXPECT_EQ(op.max_kv_len(), 120);
  EXPECT_EQ(key_count(op, 2), 7);
  op.block_table = {}, op.kv_lens = {};
  const Tensor<1> indptr = list_of(DType::i32, {0, 3, 3, 8});
  op.q_indptr = op.kv_indptr = indptr;
  EXPECT_EQ(op.batch(), 3);
  for (index b = 0; b < 3; ++b) {
    EXPECT_EQ(query_count(op, b), (std::array{3, 0, 5})[static_cast<std::size_t>(b)]);
    EXPECT_EQ(key_count(op, b), (std::array{3, 0, 5})[static_cast<std::size_t>(b)]);
  }
  const Tensor<1> two = list_of(DType::i32, {0, 3});
  op.q_indptr = two;
  EXPECT_EQ(op.batch(), 1);
}

}  // namespace
}  // namespace inlay::test
