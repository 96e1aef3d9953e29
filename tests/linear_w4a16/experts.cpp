// linear_w4a16 of several experts (core/experts.hpp).
#include "tests/support/experts.hpp"

#include "tests/linear_w4a16/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

struct Experts : Case {
  Tensor<1> ends = {};
  LinearW4a16<Host> op() {
    LinearW4a16<Host> all = Case::op();
    all.expert_ends = ends;
    return all;
  }
};

// Experts of n channels and k inputs, and one case of all of them; one perm is everybody's.
std::pair<std::vector<Case>, Experts> make_experts(Shape shape, Form form, W4Compute compute,
                                                   const std::vector<index>& rows, bool permuted, Rng& rng) {
  std::vector<Case> apart;
  for (index tokens : rows) {
    shape.rows = tokens;
    const DType scales = shape.group == 32 && shape.bits > 4 ? DType::i8 : DType::f16;
    Case one = make(shape, form, {.scales = scales}, {}, rng, permuted ? shape.k : -1);
    if (form != Form::zeros) one.add_bias(DType::f32, rng);
    if (!apart.empty()) one.codebook = apart.front().codebook;
    for (index s = 0; s < one.perm.size(); ++s) one.perm.set(s, static_cast<double>((s * 7 + 3) % shape.k));
    one.compute = compute;
    apart.push_back(one);
  }
  constexpr Layout gaps{.row_gap = 3, .misaligned = 1};
  Experts all{apart.front(), ends_of(rows)};
  all.x = of_all(apart, &Case::x, gaps);
  all.y = of_all(apart, &Case::y, gaps);
  all.codes = of_all(apart, &Case::codes);
  all.scales = of_all(apart, &Case::scales);
  all.zeros = of_all(apart, &Case::zeros);
  all.offsets = of_all(apart, &Case::offsets);
  all.super_scales = of_all(apart, &Case::super_scales);
  all.super_offsets = of_all(apart, &Case::super_offsets);
  all.bias = of_all(apart, &Case::bias);
  return {std::move(apart), std::move(all)};
}

TEST(linear_w4a16_experts, are_as_apart) {
  Rng rng(41);
  std::size_t at = 0;
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (index bits : code_bits)
      for (Form form : {Form::symmetric, Form::zeros, Form::offsets, Form::codebook}) {
        ++at;
        SCOPED_TRACE(at);
        const Shape shape{
            .rows = 0, .n = at % 3 == 0 ? 16 : 35, .k = at % 2 ? 23 : 296, .group = at % 4 ? 32 : 0, .bits = bits};
        const auto [apart, all] = make_experts(shape, form, compute, spreads[at % spreads.size()], at % 5 == 0, rng);
        ASSERT_NO_FATAL_FAILURE(expect_as_apart(apart, all));
      }
}

TEST(linear_w4a16_experts, refusals_name_what_is_wrong) {
  Rng rng(42);
  auto [apart, all] = make_experts({.rows = 0, .n = 20, .k = 16, .group = 8, .bits = 4}, Form::offsets,
                                   W4Compute::exact_float, {2, 0, 3}, false, rng);
  EXPECT_TRUE(ok(check(all.op())));
  Experts other = all;
  other.ends.set(1, 1);
  expect_refused(other.op(), {"expert_ends[1]", "is 1", "ascend", "5"});
  other = all;
  other.ends.set(2, 4);
  expect_refused(other.op(), {"expert_ends[2]", "is 4", "5"});
  LinearW4a16<Host> op = all.op();
  op.codes.extents[0] = 2;
  expect_refused(op, {"codes", "[2, 2, 64]", "[6, 2, 64]"});
  op = all.op();
  op.scales.extents[0] = 2;
  expect_refused(op, {"scales", "[2, 2, 16]", "[6, 2, 16]"});
  op = all.op();
  op.offsets.extents[0] = 2;
  expect_refused(op, {"offsets", "[2, 2, 16]", "[6, 2, 16]"});
  op = all.op();
  op.bias.extents[0] = 20;
  expect_refused(op, {"bias", "20", "60"});
}

}  // namespace
}  // namespace inlay::test
