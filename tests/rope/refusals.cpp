#include <inlay/ops/rope.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/tensor.hpp"

namespace inlay::test {
namespace {

TEST(rope, refuses_what_the_contract_does_not_cover) {
  Tensor<3> x(DType::f32, {3, 2, 8});
  Tensor<2> cos(DType::f32, {5, 4}), three(DType::f32, {3, 4}), wide(DType::f32, {3, 5});
  Tensor<1> positions(DType::i32, {3});
  positions.fill(4);
  const Refused refused(Rope<Host>{.x = x, .cos = three, .sin = three, .y = x});
  refused([&](auto& r) { r.cos = r.sin = cos; }, {"cos", "token"});
  refused([&](auto& r) { r.cos = r.sin = wide; }, {"first", "2 * 5 of cos", "8"});
  refused([&](auto& r) { r.first = 1; }, {"first", "2 * 4 of cos"});
  refused([&](auto& r) { r.sin = cos; }, {"sin", "[5, 4]", "[3, 4]"});
  positions.set(1, 5);
  refused([&](auto& r) { r.cos = r.sin = cos, r.positions = positions; }, {"positions[1]", "5", "0..4"});
  Tensor<3> integers(DType::i8, {3, 2, 8}), half_x(DType::f16, {3, 2, 8}), short_y(DType::f32, {3, 2, 7});
  Tensor<2> bf16_cos(DType::bf16, {3, 4});
  Tensor<1> four(DType::i32, {4}), floats(DType::f32, {3});
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
  refused([&](auto& r) { r.cos = r.sin = cos, r.positions = positions; }, {"positions[1]", "-1"});
}

TEST(rope_table, refuses_what_the_contract_does_not_cover) {
  Tensor<2> three(DType::f32, {3, 4});
  Tensor<2> ids(DType::i32, {1, 3}), frequencies(DType::f32, {3, 4});
  Tensor<1> axis(DType::i32, {4});
  axis.fill(0);
  Tensor<2> out_c(DType::f32, {3, 4}), out_s = out_c;
  const Refused refused(RopeTable<Host>{
      .positions = ids, .inv_freq = three.view().slice(0, 0, 1), .axis = axis, .cos = out_c, .sin = out_s});
  refused([&](auto& op) { op.inv_freq = frequencies; }, {"inv_freq", "1 row"});
  Tensor<2> f32_ids(DType::f32, {1, 3}), no_ids(DType::i32, {0, 3}), half(DType::f16, {3, 4}), five(DType::f32, {3, 5});
  Tensor<1> long_axis(DType::i32, {5}), wide_axis(DType::i64, {4});
  refused([&](auto& op) { op.positions = f32_ids; }, {"positions", "f32"});
  refused([&](auto& op) { op.positions = no_ids; }, {"positions", "no row"});
  refused([&](auto& op) { op.inv_freq = half.view().slice(0, 0, 1); }, {"inv_freq", "f16", "f32"});
  refused([&](auto& op) { op.axis = long_axis; }, {"axis", "5", "4"});
  refused([&](auto& op) { op.axis = wide_axis; }, {"axis", "i64", "i32"});
  refused([&](auto& op) { op.cos = five; }, {"cos", "[3, 5]", "[3, 4]"});
  refused([&](auto& op) { op.sin = five; }, {"sin", "[3, 5]", "[3, 4]"});
  refused([&](auto& op) { op.cos = half; }, {"cos", "f16", "f32"});
  refused([&](auto& op) { op.sin = half; }, {"sin", "f16", "f32"});
  refused([&](auto& op) { op.magnitude = std::numeric_limits<float>::quiet_NaN(); }, {"magnitude", "nan"});
  refused([&](auto& op) { op.sin = op.cos; }, {"sin", "overlaps", "cos"});
  axis.set(2, 1);
  refused([](auto&) {}, {"axis[2]", "1", "0..0"});
}

}  // namespace
}  // namespace inlay::test
