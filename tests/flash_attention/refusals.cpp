// What the contract does not cover.
#include "tests/flash_attention/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

TEST(flash_attention, refuses_what_the_contract_does_not_cover) {
  Rng rng(14);
  Case c = make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng);
  const Refused refused(c.op());
  refused([&](auto& op) { op.q.extents[2] = 5, op.out.extents[2] = 5, op.lse.extents[2] = 5; },
          {"q", "5", "heads", "2"});
  refused([&](auto& op) { op.k.dtype = DType::i8; }, {"k_scale", "i8"});
  refused([&](auto& op) { op.softcap = -1; }, {"softcap", "-1"});
  refused([&](auto& op) { op.bias_order = static_cast<BiasOrder>(3); }, {"bias_order", "3", "0..2"});
  refused([&](auto& op) { op.compute = static_cast<AttentionCompute>(2); }, {"compute", "2", "0..1"});
  refused([&](auto& op) { op.k.strides[3] = 2; }, {"k", "innermost stride 2"});
  Tensor<1> lens(DType::i32, {2});
  lens.set(0, 8), lens.set(1, 9);
  refused([&](auto& op) { op.kv_lens = lens; }, {"kv_lens", "9", "0..8"});
  Tensor<2> table(DType::i32, {2, 1});
  table.set(0, 1), table.set(1, 2);
  lens.set(1, 4);
  refused([&](auto& op) { op.kv_lens = lens, op.block_table = table; }, {"block_table", "block 2", "[1, 0]", "0..1"});
  table.set(1, -1);
  refused([&](auto& op) { op.kv_lens = lens, op.block_table = table; }, {"block_table", "block -1"});
  lens.set(1, 0);
  // no key, no block
  refused.allows([&](auto& op) { op.kv_lens = lens, op.block_table = table; });
  Tensor<1> indptr(DType::i32, {3});
  indptr.set(0, 0), indptr.set(1, 3), indptr.set(2, 2);
  refused(
      [&](auto& op) {
        op.q = op.q.slice(0, 0, 1), op.out = op.out.slice(0, 0, 1), op.lse = op.lse.slice(0, 0, 1),
        op.q_indptr = indptr;
      },
      {"q_indptr", "2"});
  Tensor<4> mask(DType::boolean, {1, 1, 3, 7});
  refused([&](auto& op) { op.mask = mask; }, {"mask", "[1, 1, 3, 7]", "8"});
  refused([&](auto& op) { op.out.data = const_cast<void*>(op.q.data); }, {"out", "overlaps", "q"});
}

Case small(Rng& rng) {
  return make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng);
}

TEST(flash_attention, refuses_shapes_and_types) {
  Rng rng(21);
  Case c = small(rng);
  const Refused refused(c.op());
  refused([&](auto& op) { op.k.extents[0] = op.v.extents[0] = 3; }, {"k", "3 sequences", "2"});
  refused([&](auto& op) { op.k.extents[3] = 7; }, {"k", "7", "8"});
  refused([&](auto& op) { op.v.extents[1] = 7; }, {"v", "[2, 7, 2, 8]", "[2, 8, 2, 8]"});
  refused([&](auto& op) { op.v.extents[2] = 1; }, {"v", "[2, 8, 1, 8]"});
  refused([&](auto& op) { op.out.extents[1] = 2; }, {"out", "[2, 2, 6, 8]", "[2, 3, 6, 8]"});
  refused([&](auto& op) { op.lse.extents[2] = 2; }, {"lse", "[2, 3, 2]", "[2, 3, 6]"});
  refused([&](auto& op) { op.out.dtype = DType::i8; }, {"out", "i8"});
  refused([&](auto& op) { op.q.dtype = DType::i8; }, {"q", "i8"});
  refused([&](auto& op) { op.scale = HUGE_VALF; }, {"scale", "inf"});
  Tensor<1> five(DType::f32, {5});
  refused([&](auto& op) { op.alibi_slopes = five; }, {"alibi_slopes", "5", "6"});
  refused([&](auto& op) { op.sinks = five; }, {"sinks", "5", "6"});
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
  const Refused refused(c.op());
  refused([&](auto& op) { op.block_table = table; }, {"kv_lens", "block_table"});
  const auto ragged = [&](auto& op) { op.kv_indptr = indptr, op.k = op.k.slice(0, 0, 1), op.v = op.v.slice(0, 0, 1); };
  refused([&](auto& op) { ragged(op), op.kv_lens = lens, op.block_table = table; }, {"kv_indptr", "block_table"});
  refused([&](auto& op) { ragged(op), op.kv_lens = lens; }, {"kv_lens", "kv_indptr"});
  refused.allows(ragged);
  for (const std::vector<index>& wrong : {std::vector<index>{1, 4, 8}, {0, 5, 4}, {0, 4, 9}}) {
    const Tensor<1> list = list_of(DType::i64, wrong);
    refused([&](auto& op) { ragged(op), op.kv_indptr = list; }, {"kv_indptr"});
  }
  refused([&](auto& op) { op.kv_indptr = indptr; }, {"k", "extent 1", "kv_indptr"});
  refused([&](auto& op) { op.q_indptr = indptr; }, {"q", "extent 1", "q_indptr"});
  const Tensor<1> three = list_of(DType::i32, {0, 0, 0});
  refused([&](auto& op) { op.q_start = three; }, {"q_start", "3", "2"});
  // 24 bits of each sequence.
  const Tensor<1> enough = list_of(DType::i32, {0, 3, 6}), few = list_of(DType::i32, {0, 3, 5});
  const Tensor<1> bits = Tensor<1>(DType::u8, {6}).fill(255);
  refused([&](auto& op) { op.packed_mask = bits; }, {"mask_indptr"});
  refused.allows([&](auto& op) { op.packed_mask = bits, op.mask_indptr = enough; });
  refused([&](auto& op) { op.packed_mask = bits, op.mask_indptr = few; }, {"mask_indptr", "2 bytes", "3"});
  for (const std::array<index, 4>& extents : {std::array<index, 4>{3, 1, 3, 8}, {1, 5, 3, 8}, {1, 1, 2, 8}}) {
    const Tensor<4> bias(DType::f32, extents), mask(DType::boolean, extents);
    refused([&](auto& op) { op.bias = bias; }, {"bias"});
    refused([&](auto& op) { op.mask = mask; }, {"mask"});
  }
}

TEST(flash_attention, refuses_scales_that_do_not_fit) {
  Rng rng(23);
  Case c = make({.batch = 2, .queries = 3, .keys = 8, .kv_heads = 2, .group = 3, .dim = 8, .v_dim = 8}, rng, DType::f32,
                DType::i8);
  const Refused refused(c.op());
  for (const std::array<index, 4>& extents : {std::array<index, 4>{1, 1, 2, 7}, {1, 8, 1, 8}, {2, 1, 1, 8}}) {
    const Tensor<4> scale(DType::f32, extents);
    refused([&](auto& op) { op.k_scale = scale; }, {"k_scale"});
    refused([&](auto& op) { op.v_offset = scale; }, {"v_offset"});
  }
  refused([&](auto& op) { op.v_scale = {}; }, {"v_scale", "i8"});
}

}  // namespace
}  // namespace inlay::test
