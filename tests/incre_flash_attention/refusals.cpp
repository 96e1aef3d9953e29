// What the contract does not cover.
#include "tests/incre_flash_attention/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

TEST(incre_flash_attention, refuses_what_the_contract_does_not_cover) {
  Rng rng(10);
  Case c = make({.batch = 2, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  const Refused refused(c.op());
  Tensor<1> lengths(DType::i32, {2});
  lengths.set(0, 20), lengths.set(1, 21);
  refused([&](auto& op) { op.kv_lens = lengths; }, {"kv_lens", "21", "0..20"});
  lengths.set(1, -1);
  refused([&](auto& op) { op.kv_lens = lengths; }, {"kv_lens", "-1"});
  refused([&](auto& op) { op.bias_order = static_cast<BiasOrder>(3); }, {"bias_order", "3", "0..2"});
  refused([&](auto& op) { op.k = {}; }, {"k", "k_list"});
  Tensor<2> out_scale(DType::f32, {1, 1});
  refused([&](auto& op) { op.out_scale = out_scale; }, {"out_scale", "i8"});
  Tensor<4> pse(DType::f32, {1, 4, 1, 19});
  refused([&](auto& op) { op.bias = pse; }, {"bias", "19", "20"});
  Tensor<4> k_scale(DType::f32, {1, 1, 1, 1});
  refused([&](auto& op) { op.k_scale = k_scale; }, {"k_scale", "i8"});
  Case listed = c;
  for (int b = 0; b < 2; ++b) {
    listed.k_parts.push_back({DType::f32, {5, 2, 8}});
    listed.v_parts.push_back({b == 0 ? DType::f32 : DType::f16, {5, 2, 8}});
  }
  expect_refused(listed.op(), {"v_list", "f16", "at 1", "f32"});
  listed.v_parts.pop_back();
  expect_refused(listed.op(), {"v_list", "k_list"});
}

TEST(incre_flash_attention, refuses_shapes_that_do_not_fit) {
  Rng rng(25);
  Case c = make({.batch = 2, .queries = 3, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 6}, rng);
  const Refused refused(c.op());
  refused([&](auto& op) { op.k.extents[3] = 7; }, {"k", "[2, 20, 2, 7]", "[2, 3, 4, 8]"});
  refused([&](auto& op) { op.v.extents[1] = 19; }, {"v", "[2, 19, 2, 6]", "[2, 20, 2, 6]"});
  refused([&](auto& op) { op.out.extents[3] = 5; }, {"out", "[2, 3, 4, 5]", "[2, 3, 4, 6]"});
  refused([&](auto& op) { op.k.extents[2] = op.v.extents[2] = 3; }, {"q", "4 heads", "3"});
  const Tensor<3> mask(DType::boolean, {2, 3, 19}), of_two_queries(DType::boolean, {2, 2, 20});
  refused([&](auto& op) { op.mask = mask; }, {"mask", "19", "20"});
  refused([&](auto& op) { op.mask = of_two_queries; }, {"mask", "[2, 2, 20]"});
  const Tensor<1> three(DType::i32, {3}), five(DType::f32, {5});
  refused([&](auto& op) { op.kv_lens = three; }, {"kv_lens", "3", "2"});
  refused([&](auto& op) { op.sinks = five; }, {"sinks", "5", "4"});
  const Tensor<2> offset(DType::f32, {1, 1});
  refused([&](auto& op) { op.out_offset = offset; }, {"out_offset", "i8"});
  Case codes = make({.batch = 2, .queries = 3, .keys = 20, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 6}, rng,
                    DType::f32, DType::i8, DType::i8);
  EXPECT_TRUE(ok(check(codes.op())));
  const Refused refused_codes(codes.op());
  const Tensor<2> of_three_heads(DType::f32, {3, 6});
  refused_codes([&](auto& op) { op.out_scale = of_three_heads; }, {"out_scale", "[3, 6]", "[4, 6]"});
  refused_codes([&](auto& op) { op.out_scale = {}; }, {"out_scale", "i8"});
  const Tensor<4> each(DType::f32, {2, 20, 1, 6});
  refused_codes([&](auto& op) { op.v_scale = each; }, {"v_scale", "per token and per channel"});
}

TEST(incre_flash_attention, refuses_lists_that_do_not_fit) {
  Rng rng(26);
  Case c = make({.batch = 2, .keys = 9, .kv_heads = 2, .group = 2, .dim = 8, .v_dim = 8}, rng);
  for (index slots : {9, 5}) {
    c.k_parts.push_back({DType::f32, {slots, 2, 8}});
    c.v_parts.push_back({DType::f32, {slots, 2, 8}});
  }
  EXPECT_TRUE(ok(check(c.op())));
  Tensor<4> k(DType::f32, {2, 9, 2, 8});
  const Refused refused(c.op());
  refused([&](auto& op) { op.k = k; }, {"k", "k_list"});
  c.kv_lens = list_of(DType::i32, {9, 6});
  expect_refused(c.op(), {"kv_lens", "6", "sequence 1", "0..5"});
  c.kv_lens = list_of(DType::i32, {6});
  expect_refused(c.op(), {"kv_lens", "6", "0..5"});
  c.kv_lens = list_of(DType::i32, {9, 5});
  EXPECT_TRUE(ok(check(c.op())));
  c.k_parts[1] = {DType::f32, {5, 1, 8}};
  expect_refused(c.op(), {"k_list", "[5, 1, 8]", "at 1", "[5, 2, 8]"});
  c.k_parts.pop_back(), c.v_parts.pop_back();
  expect_refused(c.op(), {"k_list", "1 entries", "2"});
}

}  // namespace
}  // namespace inlay::test
