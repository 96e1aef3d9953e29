#include <inlay/ops/rope.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/tensor.hpp"

namespace inlay::test {
namespace {

TEST(rope, refuses_what_the_contract_does_not_cover) {
  Tensor<3> x(DType::f32, {3, 2, 8});
  Tensor<2> cos(DType::f32, {5, 4}), three(DType::f32, {3, 4}), wide(DType::f32, {3, 5});
  Tensor<1> positions(DType::i32, {3});
  positions.fill(4);
  expect_refused(Rope<Host>{.x = x, .cos = cos, .sin = cos, .y = x}, {"cos", "token"});
  expect_refused(Rope<Host>{.x = x, .cos = wide, .sin = wide, .y = x}, {"first", "2 * 5 of cos", "8"});
  expect_refused(Rope<Host>{.x = x, .cos = three, .sin = three, .y = x, .first = 1}, {"first", "2 * 4 of cos"});
  expect_refused(Rope<Host>{.x = x, .cos = three, .sin = cos, .y = x}, {"sin", "[5, 4]", "[3, 4]"});
  positions.set(1, 5);
  expect_refused(Rope<Host>{.x = x, .cos = cos, .sin = cos, .positions = positions, .y = x},
                 {"positions[1]", "5", "0..4"});
  Tensor<3> integers(DType::i8, {3, 2, 8}), half_x(DType::f16, {3, 2, 8}), short_y(DType::f32, {3, 2, 7});
  Tensor<2> bf16_cos(DType::bf16, {3, 4});
  Tensor<1> four(DType::i32, {4}), floats(DType::f32, {3});
  const Rope<Host> right{.x = x, .cos = three, .sin = three, .y = x};
  const auto refused = [&](auto change, std::initializer_list<std::string_view> words) {
    Rope<Host> rope = right;
    change(rope);
    expect_refused(rope, words);
  };
  EXPECT_TRUE(ok(check(right)));
  refused([&](auto& r) { r.x = integers, r.y = integers; }, {"x", "i8"});
  refused([&](auto& r) { r.cos = bf16_cos, r.sin = bf16_cos; }, {"cos", "bf16"});
  refused([&](auto& r) { r.sin = bf16_cos; }, {"sin", "bf16", "f32", "cos"});
  refused([&](auto& r) { r.y = half_x; }, {"y", "f16", "f32", "x"});
  refused([&](auto& r) { r.y = short_y; }, {"y", "[3, 2, 7]", "[3, 2, 8]"});
  refused([&](auto& r) { r.positions = four; }, {"positions", "4", "3"});
  refused([&](auto& r) { r.positions = floats; }, {"positions", "f32"});
  refused([&](auto& r) { r.first = -1; }, {"first", "-1"});
  Tensor<3> wide_heads(DType::f32, {3, 2, 9});
  const auto part = [&](index first_of) { return wide_heads.view().slice(2, first_of, 8); };
  refused([&](auto& r) { r.x = part(0), r.y = part(1); }, {"y", "overlaps", "x"});
  positions.set(1, -1);
  expect_refused(Rope<Host>{.x = x, .cos = cos, .sin = cos, .positions = positions, .y = x}, {"positions[1]", "-1"});
}

TEST(rope_table, refuses_what_the_contract_does_not_cover) {
  Tensor<2> three(DType::f32, {3, 4});
  Tensor<2> ids(DType::i32, {1, 3}), frequencies(DType::f32, {3, 4});
  Tensor<1> axis(DType::i32, {4});
  axis.fill(0);
  Tensor<2> out_c(DType::f32, {3, 4}), out_s = out_c;
  const auto table = [&] {
    return RopeTable<Host>{
        .positions = ids, .inv_freq = three.view().slice(0, 0, 1), .axis = axis, .cos = out_c, .sin = out_s};
  };
  RopeTable<Host> op = table();
  op.inv_freq = frequencies;
  expect_refused(op, {"inv_freq", "1 row"});
  op = table();
  Tensor<2> f32_ids(DType::f32, {1, 3}), no_ids(DType::i32, {0, 3}), half(DType::f16, {3, 4}), five(DType::f32, {3, 5});
  Tensor<1> long_axis(DType::i32, {5}), wide_axis(DType::i64, {4});
  op.positions = f32_ids;
  expect_refused(op, {"positions", "f32"});
  op.positions = no_ids;
  expect_refused(op, {"positions", "no row"});
  op = table(), op.inv_freq = half.view().slice(0, 0, 1);
  expect_refused(op, {"inv_freq", "f16", "f32"});
  op = table(), op.axis = long_axis;
  expect_refused(op, {"axis", "5", "4"});
  op = table(), op.axis = wide_axis;
  expect_refused(op, {"axis", "i64", "i32"});
  op = table(), op.cos = five;
  expect_refused(op, {"cos", "[3, 5]", "[3, 4]"});
  op = table(), op.sin = five;
  expect_refused(op, {"sin", "[3, 5]", "[3, 4]"});
  op = table(), op.cos = half;
  expect_refused(op, {"cos", "f16", "f32"});
  op = table(), op.sin = half;
  expect_refused(op, {"sin", "f16", "f32"});
  op = table(), op.magnitude = std::numeric_limits<float>::quiet_NaN();
  expect_refused(op, {"magnitude", "nan"});
  op = table(), op.sin = op.cos;
  expect_refused(op, {"sin", "overlaps", "cos"});
  axis.set(2, 1);
  expect_refused(table(), {"axis[2]", "1", "0..0"});
}

}  // namespace
}  // namespace inlay::test
