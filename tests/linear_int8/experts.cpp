// linear_int8 of several experts (core/experts.hpp).
#include "tests/support/experts.hpp"

#include "tests/linear_int8/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

struct Experts : Case {
  Tensor<1> ends = {};
  LinearInt8<Host> op() {
    LinearInt8<Host> all = Case::op();
    all.expert_ends = ends;
    return all;
  }
};

// How x and y are quantized.
enum class Way { dynamic, asymmetric, shadow, integers, raw, requantized };
constexpr Way ways[] = {Way::dynamic, Way::asymmetric, Way::shadow, Way::integers, Way::raw, Way::requantized};

// Experts of n channels and k inputs, and one case of all of them. `shared`: scales and zero points are one number.
std::pair<std::vector<Case>, Experts> make_experts(Way way, const std::vector<index>& rows, index n, index k,
                                                   bool shared, Rng& rng) {
  const bool floats = way == Way::dynamic || way == Way::asymmetric || way == Way::shadow;
  const DType y = way == Way::raw ? DType::i32 : way == Way::requantized ? DType::u8 : DType::f32;
  const Tensor<1> x_scale = ones_about(1, 0.005, rng), weight_scale = ones_about(1, 0.01, rng),
                  x_zero = zero_points(DType::i8, 1, rng), weight_zero = zero_points(DType::i8, 1, rng),
                  y_scale = ones_about(1, 0.5, rng), y_zero = zero_points(DType::u8, 1, rng);
  std::vector<Case> apart;
  for (index tokens : rows) {
    Case one = make(floats ? DType::f32 : DType::i8, y, tokens, n, k, {}, rng);
    if (way != Way::raw) {
      one.weight_scale = shared ? weight_scale : ones_about(n, 0.01, rng);
      one.bias = Tensor<1>(DType::f32, {n}).uniform(rng);
    }
    one.weight_zero = shared ? weight_zero : zero_points(DType::i8, n, rng);
    one.asymmetric = way == Way::asymmetric;
    one.shadow_outliers = way == Way::shadow;
    if (way == Way::shadow || way == Way::integers || way == Way::requantized) {
      one.x_scale = shared ? x_scale : ones_about(tokens, 0.005, rng);
      one.x_zero = shared ? x_zero : zero_points(DType::i8, tokens, rng);
    }
    if (way == Way::requantized) one.y_scale = y_scale, one.y_zero = y_zero;
    apart.push_back(one);
  }
  constexpr Layout gaps{.row_gap = 3, .misaligned = 1};
  Experts all{apart.front(), ends_of(rows)};
  all.x = of_all(apart, &Case::x, gaps);
  all.y = of_all(apart, &Case::y, gaps);
  all.weight = of_all(apart, &Case::weight);
  all.weight_sum = of_all(apart, &Case::weight_sum);
  all.bias = of_all(apart, &Case::bias);
  if (!shared) {
    all.weight_scale = of_all(apart, &Case::weight_scale);
    all.weight_zero = of_all(apart, &Case::weight_zero);
    all.x_scale = of_all(apart, &Case::x_scale);
    all.x_zero = of_all(apart, &Case::x_zero);
  }
  return {std::move(apart), std::move(all)};
}

TEST(linear_int8_experts, are_as_apart) {
  Rng rng(31);
  std::size_t at = 0;
  for (Way way : ways)
    for (bool shared : {false, true}) {
      ++at;
      SCOPED_TRACE(at);
      // A scale of one token's extent is one for all of them.
      for (const auto& rows : spreads) {
        const auto [apart, all] = make_experts(way, rows, at % 3 == 0 ? 16 : 35, at % 2 ? 19 : 130, shared, rng);
        ASSERT_NO_FATAL_FAILURE(expect_as_apart(apart, all));
      }
    }
}

TEST(linear_int8_experts, refusals_name_what_is_wrong) {
  Rng rng(32);
  auto [apart, all] = make_experts(Way::integers, {2, 0, 3}, 20, 8, false, rng);
  EXPECT_TRUE(ok(check(all.op())));
  Experts other = all;
  other.ends.set(1, 1);
  expect_refused(other.op(), {"expert_ends[1]", "is 1", "ascend", "5"});
  other = all;
  other.ends.set(2, 4);
  expect_refused(other.op(), {"expert_ends[2]", "is 4", "5"});
  LinearInt8<Host> op = all.op();
  op.weight.extents[0] = 2;
  expect_refused(op, {"weight", "[2, 2, 64]", "[6, 2, 64]"});
  op = all.op();
  op.weight_sum.extents[0] = 20;
  expect_refused(op, {"weight_sum", "20", "60"});
  op = all.op();
  op.weight_scale.extents[0] = 20;
  expect_refused(op, {"weight_scale", "20", "1 or 60"});
  op = all.op();
  op.weight_zero.extents[0] = 20;
  expect_refused(op, {"weight_zero", "20", "1 or 60"});
  op = all.op();
  op.bias.extents[0] = 20;
  expect_refused(op, {"bias", "20", "60"});
}

}  // namespace
}  // namespace inlay::test
