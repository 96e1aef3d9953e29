// What the contract does not cover.
#include "tests/flash_attention/case.hpp"

namespace inlay::test {
namespace {

TEST(flash_attention, refuses_what_the_contract_does_not_cover) {
  Rng rng(14);
  Case c = make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng);
  EXPECT_TRUE(ok(check(c.op())));
  FlashAttention<Host> op = c.op();
  op.q.extents[2] = 5;
  op.out.extents[2] = 5;
  op.lse.extents[2] = 5;
  expect_refused(op, {"q", "5", "heads", "2"});
  op = c.op();
  op.k.dtype = DType::i8;
  expect_refused(op, {"k_scale", "i8"});
  op = c.op();
  op.softcap = -1;
  expect_refused(op, {"softcap", "-1"});
  op = c.op();
  op.bias_order = static_cast<BiasOrder>(3);
  expect_refused(op, {"bias_order", "3", "0..2"});
  op = c.op();
  op.compute = static_cast<AttentionCompute>(2);
  expect_refused(op, {"compute", "2", "0..1"});
  op = c.op();
  op.k.strides[3] = 2;
  expect_refused(op, {"k", "innermost stride 2"});
  Tensor<1> lens(DType::i32, {2});
  lens.set(0, 8), lens.set(1, 9);
  op = c.op();
  op.kv_lens = lens;
  expect_refused(op, {"kv_lens", "9", "0..8"});
  Tensor<2> table(DType::i32, {2, 1});
  table.set(0, 1), table.set(1, 2);
  lens.set(1, 4);
  op.block_table = table;
  expect_refused(op, {"block_table", "block 2", "[1, 0]", "0..1"});
  table.set(1, -1);
  expect_refused(op, {"block_table", "block -1"});
  lens.set(1, 0);  // no key, no block
  EXPECT_TRUE(ok(check(op)));
  Tensor<1> indptr(DType::i32, {3});
  indptr.set(0, 0), indptr.set(1, 3), indptr.set(2, 2);
  op = c.op();
  op.q = op.q.slice(0, 0, 1), op.out = op.out.slice(0, 0, 1), op.lse = op.lse.slice(0, 0, 1);
  op.q_indptr = indptr;
  expect_refused(op, {"q_indptr", "2"});
  op = c.op();
  Tensor<4> mask(DType::boolean, {1, 1, 3, 7});
  op.atten_mask = mask;
  expect_refused(op, {"atten_mask", "[1, 1, 3, 7]", "8"});
  op = c.op();
  op.out.data = const_cast<void*>(op.q.data);
  expect_refused(op, {"out", "overlaps", "q"});
}

Case small(Rng& rng) {
  return make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng);
}

TEST(flash_attention, refuses_shapes_and_types) {
  Rng rng(21);
  Case c = small(rng);
  FlashAttention<Host> op = c.op();
  op.k.extents[0] = op.v.extents[0] = 3;
  expect_refused(op, {"k", "3 sequences", "2"});
  op = c.op();
  op.k.extents[3] = 7;
  expect_refused(op, {"k", "7", "8"});
  op = c.op();
  op.v.extents[1] = 7;
  expect_refused(op, {"v", "[2, 7, 2, 8]", "[2, 8, 2, 8]"});
  op = c.op();
  op.v.extents[2] = 1;
  expect_refused(op, {"v", "[2, 8, 1, 8]"});
  op = c.op();
  op.out.extents[1] = 2;
  expect_refused(op, {"out", "[2, 2, 6, 8]", "[2, 3, 6, 8]"});
  op = c.op();
  op.lse.extents[2] = 2;
  expect_refused(op, {"lse", "[2, 3, 2]", "[2, 3, 6]"});
  op = c.op();
  op.out.dtype = DType::i8;
  expect_refused(op, {"out", "i8"});
  op = c.op();
  op.q.dtype = DType::i8;
  expect_refused(op, {"q", "i8"});
  op = c.op();
  op.scale = HUGE_VALF;
  expect_refused(op, {"scale", "inf"});
  Tensor<1> five(DType::f32, {5});
  op = c.op();
  op.alibi_slopes = five;
  expect_refused(op, {"alibi_slopes", "5", "6"});
  op = c.op();
  op.sinks = five;
  expect_refused(op, {"sinks", "5", "6"});
  for (index dim : {index{0}, max_head_dim + 1}) {
    Case wide = make({.queries = 1, .keys = 1, .dim = dim, .v_dim = 1}, rng);
    expect_refused(wide.op(), {"q", std::to_string(dim), "1..576"});
    wide = make({.queries = 1, .keys = 1, .dim = 1, .v_dim = dim}, rng);
    expect_refused(wide.op(), {"v", std::to_string(dim), "1..576"});
  }
  Case widest = make({.queries = 1, .keys = 1, .dim = max_head_dim, .v_dim = max_head_dim}, rng);
  EXPECT_TRUE(ok(check(widest.op())));
}

TEST(flash_attention, refuses_tables_and_masks_that_do_not_fit) {
  Rng rng(22);
  Case c = small(rng);
  const Tensor<1> indptr = list_of(DType::i32, {0, 4, 8}), lens = list_of(DType::i32, {8, 8});
  Tensor<2> table = Tensor<2>(DType::i32, {2, 1}).fill(0);
  FlashAttention<Host> op = c.op();
  op.block_table = table;
  expect_refused(op, {"kv_lens", "block_table"});
  op.kv_lens = lens, op.kv_indptr = indptr;
  op.k = op.k.slice(0, 0, 1), op.v = op.v.slice(0, 0, 1);
  expect_refused(op, {"kv_indptr", "block_table"});
  op.block_table = {};
  expect_refused(op, {"kv_lens", "kv_indptr"});
  op.kv_lens = {};
  EXPECT_TRUE(ok(check(op)));
  for (const std::vector<index>& wrong : {std::vector<index>{1, 4, 8}, {0, 5, 4}, {0, 4, 9}}) {
    const Tensor<1> list = list_of(DType::i64, wrong);
    op.kv_indptr = list;
    expect_refused(op, {"kv_indptr"});
  }
  op = c.op();
  op.kv_indptr = indptr;
  expect_refused(op, {"k", "extent 1", "kv_indptr"});
  op = c.op();
  op.q_indptr = indptr;
  expect_refused(op, {"q", "extent 1", "q_indptr"});
  op = c.op();
  const Tensor<1> three = list_of(DType::i32, {0, 0, 0});
  op.q_start = three;
  expect_refused(op, {"q_start", "3", "2"});
  // 24 bits of each sequence.
  const Tensor<1> enough = list_of(DType::i32, {0, 3, 6}), few = list_of(DType::i32, {0, 3, 5});
  const Tensor<1> bits = Tensor<1>(DType::u8, {6}).fill(255);
  op = c.op();
  op.packed_mask = bits;
  expect_refused(op, {"mask_indptr"});
  op.mask_indptr = enough;
  EXPECT_TRUE(ok(check(op)));
  op.mask_indptr = few;
  expect_refused(op, {"mask_indptr", "2 bytes", "3"});
  for (const std::array<index, 4>& extents : {std::array<index, 4>{3, 1, 3, 8}, {1, 5, 3, 8}, {1, 1, 2, 8}}) {
    const Tensor<4> bias(DType::f32, extents), mask(DType::boolean, extents);
    op = c.op();
    op.bias = bias;
    expect_refused(op, {"bias"});
    op = c.op();
    op.atten_mask = mask;
    expect_refused(op, {"atten_mask"});
  }
}

TEST(flash_attention, refuses_scales_that_do_not_fit) {
  Rng rng(23);
  Case c = make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng, DType::f32,
                DType::i8);
  EXPECT_TRUE(ok(check(c.op())));
  for (const std::array<index, 4>& extents : {std::array<index, 4>{1, 1, 2, 7}, {1, 8, 1, 8}, {2, 1, 1, 8}}) {
    const Tensor<4> scale(DType::f32, extents);
    FlashAttention<Host> op = c.op();
    op.k_scale = scale;
    expect_refused(op, {"k_scale"});
    op = c.op();
    op.v_offset = scale;
    expect_refused(op, {"v_offset"});
  }
  FlashAttention<Host> op = c.op();
  op.v_scale = {};
  expect_refused(op, {"v_scale", "i8"});
}

}  // namespace
}  // namespace inlay::test
