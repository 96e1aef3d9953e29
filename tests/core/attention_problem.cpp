// What the three contracts of attention become for every backend, by answers written by hand.
#include <inlay/core/attention_problem.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/paged_attention.hpp>

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/cases.hpp"
#include "tests/support/test_space.hpp"

namespace inlay::test {
namespace {

using Numbers = std::vector<index>;

Numbers numbers(const AttentionSequence& s) {
  return {s.queries, s.keys, s.position, s.q_outer, s.q_row, s.outer, s.row, s.scale_outer, s.column, s.packed};
}
template <class V> Numbers shape(const V& view) { return {view.extents.begin(), view.extents.end()}; }
template <class V> Numbers steps(const V& view) { return {view.strides.begin(), view.strides.end()}; }

TEST(attention_problem, of_a_padded_prompt) {
  Tensor<4> q(DType::f32, {3, 4, 6, 8}), k(DType::f16, {3, 20, 2, 8}, {.row_gap = 3}), v(DType::f16, {3, 20, 2, 5});
  Tensor<4> out(DType::f32, {3, 4, 6, 5});
  const Tensor<1> lens = list_of(DType::i64, {5, 0, 7});
  FlashAttention<Host> op{.q = q, .k = k, .v = v, .out = out, .kv_lens = lens, .scale = 0.5f, .softcap = 3};
  op.window_left = 9, op.window_right = 2;
  const AttentionProblem<Host> p = attention_problem(op);
  EXPECT_EQ(p.batch(), 3);
  EXPECT_EQ(p.q_heads(), 6);
  EXPECT_EQ(p.kv_heads(), 2);
  EXPECT_EQ(p.group(), 3);
  EXPECT_EQ(p.k.dim, 8);
  EXPECT_EQ(p.v.dim, 5);
  EXPECT_EQ(shape(p.k.cache), (Numbers{3, 2, 1, 20, 8}));
  EXPECT_EQ(steps(p.k.cache), (Numbers{20 * 22, 11, 8, 22, 1}));
  EXPECT_EQ(p.k.of(2).data, k.view().data);
  EXPECT_EQ(p.scale, 0.5f);
  EXPECT_EQ(p.softcap, 3);
  EXPECT_EQ(p.window_left, 9);
  EXPECT_EQ(p.window_right, 2);
  EXPECT_EQ(p.max_kv_len, 20);
  EXPECT_EQ(p.partition, 0);
  EXPECT_TRUE(p.chunk_invariant);
  EXPECT_EQ(numbers(attention_sequence(p, 0)), (Numbers{4, 5, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(numbers(attention_sequence(p, 2)), (Numbers{4, 7, 3, 2, 0, 2, 0, 2, 0, 0}));
  const KeyRange seen = p.visible(attention_sequence(p, 2), 1);  // at 4, of 7 keys
  EXPECT_EQ(seen.begin, 0);
  EXPECT_EQ(seen.end, 7);
  op.causal = true;
  EXPECT_EQ(attention_problem(op).window_right, 0);
}

TEST(attention_problem, of_a_ragged_prompt) {
  Tensor<4> q(DType::f32, {1, 8, 1, 1}), k(DType::f32, {1, 11, 1, 1});
  const Tensor<1> q_indptr = list_of(DType::i32, {0, 3, 3, 8}), kv_indptr = list_of(DType::i64, {0, 5, 7, 11});
  const Tensor<1> starts = list_of(DType::i32, {0, 0, 6}), mask_indptr = list_of(DType::i32, {0, 2, 2, 5});
  const Tensor<1> bits(DType::u8, {5});
  FlashAttention<Host> op{.q = q, .k = k, .v = k, .out = q, .q_indptr = q_indptr, .kv_indptr = kv_indptr};
  EXPECT_EQ(attention_problem(op).batch(), 3);
  EXPECT_EQ(numbers(attention_sequence(attention_problem(op), 1)), (Numbers{0, 2, 2, 0, 3, 0, 5, 0, 0, 0}));
  op.q_start = starts, op.packed_mask = bits, op.mask_indptr = mask_indptr;
  EXPECT_EQ(numbers(attention_sequence(attention_problem(op), 2)), (Numbers{5, 4, 6, 0, 3, 0, 7, 0, 0, 2}));
}

TEST(attention_problem, of_a_prompt_over_blocks) {
  Tensor<4> q(DType::f32, {2, 4, 1, 1}), k(DType::f32, {9, 16, 1, 1});
  const Tensor<1> lens = list_of(DType::i32, {40, 33});
  const Tensor<2> table(DType::i32, {2, 3});
  const FlashAttention<Host> op{.q = q, .k = k, .v = k, .out = q, .kv_lens = lens, .block_table = table};
  const AttentionProblem<Host> p = attention_problem(op);
  EXPECT_EQ(p.block_size(), 16);
  EXPECT_EQ(p.max_kv_len, 48);
  EXPECT_EQ(p.block_table.data, table.view().data);
  const AttentionSequence s = attention_sequence(p, 1);
  EXPECT_EQ(s.keys, 33);
  EXPECT_EQ(s.position, 29);
}

TEST(attention_problem, of_decoding) {
  Tensor<4> q(DType::f32, {3, 2, 4, 8}), k(DType::i8, {3, 20, 2, 8}), out(DType::i8, {3, 2, 4, 8});
  const Tensor<1> lens = list_of(DType::i64, {4, 0, 15}), one = list_of(DType::i32, {7});
  const Tensor<3> mask(DType::boolean, {3, 1, 25}, {.row_gap = 2});
  const Tensor<2> out_scale(DType::f32, {1, 8});
  IncreFlashAttention<Host> op{.q = q, .k = k, .v = k, .out = out, .kv_lens = lens, .mask = mask};
  op.out_scale = out_scale;
  const AttentionProblem<Host> p = attention_problem(op);
  EXPECT_EQ(shape(p.k.cache), (Numbers{3, 2, 1, 20, 8}));
  EXPECT_EQ(shape(p.mask), (Numbers{3, 1, 1, 25}));
  EXPECT_EQ(p.mask.strides[0], 27);
  EXPECT_EQ(p.out_scale.data, out_scale.view().data);
  EXPECT_EQ(p.max_kv_len, 20);
  EXPECT_EQ(p.partition, 0);
  EXPECT_EQ(p.window_right, -1);
  EXPECT_FALSE(p.chunk_invariant);
  EXPECT_EQ(numbers(attention_sequence(p, 2)), (Numbers{2, 15, 13, 2, 0, 2, 0, 2, 0, 0}));
  op.kv_left_padding = true, op.kv_padding = 3;
  EXPECT_EQ(numbers(attention_sequence(attention_problem(op), 0)), (Numbers{2, 4, 2, 0, 0, 0, 13, 0, 13, 0}));
  op.kv_padding = 6;  // leaves room for 14
  EXPECT_EQ(numbers(attention_sequence(attention_problem(op), 2)), (Numbers{2, 0, -2, 2, 0, 2, 0, 2, 0, 0}));
  op.kv_left_padding = false, op.kv_lens = one, op.causal = true;
  EXPECT_EQ(attention_sequence(attention_problem(op), 2).keys, 7);
  EXPECT_EQ(attention_problem(op).window_right, 0);
  op.kv_lens = {};
  EXPECT_EQ(attention_sequence(attention_problem(op), 2).keys, 20);
}

TEST(attention_problem, of_decoding_over_a_list) {
  Tensor<4> q(DType::f32, {2, 1, 2, 4});
  Tensor<3> longer(DType::f32, {20, 2, 4}), shorter(DType::f32, {6, 2, 4}, {.row_gap = 1});
  const std::vector<ConstView<3>> list{longer, shorter};
  IncreFlashAttention<Host> op{.q = q, .k_list = list, .v_list = list, .out = q};
  op.kv_left_padding = true, op.kv_padding = 2;
  const Tensor<1> one = list_of(DType::i32, {3});
  op.kv_lens = one;
  const AttentionProblem<Host> p = attention_problem(op);
  EXPECT_EQ(p.kv_heads(), 2);
  EXPECT_EQ(p.max_kv_len, 20);
  EXPECT_EQ(p.k.cache.data, list[0].data);
  EXPECT_EQ(p.v.of(1).data, list[1].data);
  EXPECT_EQ(shape(p.v.of(1)), (Numbers{1, 2, 1, 6, 4}));
  EXPECT_EQ(p.v.of(1).strides[3], 10);
  // Rows lie in a view of the sequence's own, scales in one of the batch.
  EXPECT_EQ(numbers(attention_sequence(p, 1)), (Numbers{1, 3, 2, 1, 0, 0, 1, 1, 1, 0}));
}

TEST(attention_problem, of_pages) {
  Tensor<3> q(DType::f32, {2, 6, 8}, {.row_gap = 5}), out(DType::f32, {2, 6, 4}), scales(DType::f32, {9, 2, 16});
  const Tensor<5> keys(DType::i8, {9, 2, 2, 16, 4}), values(DType::i8, {9, 2, 1, 16, 4});
  const Tensor<2> table(DType::i32, {2, 40});
  Tensor<2> lse(DType::f32, {2, 6}, {.row_gap = 2});
  const Tensor<1> lens = list_of(DType::i32, {40, 33});
  PagedAttention<Host> op{.q = q, .k = keys, .v = values, .block_table = table, .kv_lens = lens, .out = out};
  op.lse = lse, op.k_scale = op.v_scale = scales, op.k_tensor_scale = 0.5f, op.v_tensor_scale = 0.25f;
  const AttentionProblem<Host> p = attention_problem(op);
  EXPECT_EQ(p.batch(), 2);
  EXPECT_EQ(shape(p.q), (Numbers{2, 1, 6, 8}));
  EXPECT_EQ(offset(p.q, 1, 0, 5, 7), offset(op.q, 1, 5, 7));
  EXPECT_EQ(offset(p.out, 1, 0, 5, 3), offset(op.out, 1, 5, 3));
  EXPECT_EQ(offset(p.lse, 1, 0, 5), offset(op.lse, 1, 5));
  EXPECT_EQ(p.k.cache.data, keys.view().data);
  EXPECT_EQ(p.k.dim, 8);
  EXPECT_EQ(p.v.dim, 4);
  EXPECT_EQ(shape(p.k.scale), (Numbers{9, 16, 2, 1}));
  EXPECT_EQ(offset(p.k.scale, 8, 15, 1, 0), offset(op.k_scale, 8, 1, 15));
  EXPECT_EQ(p.k.factor, 0.5f);
  EXPECT_EQ(p.v.factor, 0.25f);
  EXPECT_EQ(p.max_kv_len, 640);
  EXPECT_EQ(p.window_right, 0);
  EXPECT_EQ(p.partition, 512);
  EXPECT_EQ(numbers(attention_sequence(p, 1)), (Numbers{1, 33, 32, 1, 0, 1, 0, 1, 0, 0}));
  for (index whole : {0, 640, 1000}) {
    op.partition = whole;
    EXPECT_EQ(attention_problem(op).partition, 640) << whole;
  }
  op.k_scale = op.v_scale = {}, op.lse = {};
  EXPECT_FALSE(attention_problem(op).k.scale.present());
  EXPECT_FALSE(attention_problem(op).lse.present());
}

// Contents that the host cannot read are not asked for.
TEST(attention_problem, in_device_memory) {
  const FlashAttention<TestSpace> op{.q = {{1, 0}, DType::f32, {2, 4, 6, 8}},
                                     .k = {{2, 64}, DType::f32, {9, 16, 2, 8}},
                                     .v = {{3, 0}, DType::f32, {9, 16, 2, 8}},
                                     .out = {{4, 0}, DType::f32, {2, 4, 6, 8}},
                                     .kv_lens = {{5, 0}, DType::i32, {2}},
                                     .block_table = {{6, 0}, DType::i32, {2, 3}}};
  const AttentionProblem<TestSpace> p = attention_problem(op);
  EXPECT_EQ(p.k.of(1).data, (ConstTestPointer{2, 64}));
  EXPECT_EQ(p.kv_lens.data, (ConstTestPointer{5, 0}));
  EXPECT_EQ(p.max_kv_len, 48);
  const std::vector<ConstView<3, TestSpace>> list{{{7, 0}, DType::f32, {4, 1, 8}}, {{8, 32}, DType::f32, {5, 1, 8}}};
  const IncreFlashAttention<TestSpace> listed{
      .q = {{1, 0}, DType::f32, {2, 1, 1, 8}}, .k_list = list, .v_list = list, .out = {}};
  EXPECT_EQ(attention_problem(listed).k.of(1).data, (ConstTestPointer{8, 32}));
  EXPECT_EQ(attention_problem(listed).max_kv_len, 5);
  const PagedAttention<TestSpace> paged{.q = {{1, 0}, DType::f32, {2, 6, 8}},
                                        .k = {{2, 0}, DType::f32, {9, 2, 1, 16, 8}},
                                        .v = {},
                                        .block_table = {{6, 0}, DType::i32, {2, 3}},
                                        .kv_lens = {{5, 8}, DType::i32, {2}},
                                        .out = {}};
  EXPECT_EQ(attention_problem(paged).q.data, (ConstTestPointer{1, 0}));
  EXPECT_EQ(attention_problem(paged).kv_lens.data, (ConstTestPointer{5, 8}));
}

}  // namespace
}  // namespace inlay::test
