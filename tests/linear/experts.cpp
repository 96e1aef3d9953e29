// linear of several experts (core/experts.hpp).
#include "tests/support/experts.hpp"

#include "tests/linear/case.hpp"
#include "tests/support/refused.hpp"

namespace inlay::test {
namespace {

struct Experts : Case {
  Tensor<1> ends = {};
  Linear<Host> op() {
    Linear<Host> all = Case::op();
    all.expert_ends = ends;
    return all;
  }
};

// Experts of n channels and k inputs, and one case of all of them.
std::pair<std::vector<Case>, Experts> make_experts(Types type, const std::vector<index>& rows, index n, index k,
                                                   Form form, bool with_bias, Rng& rng) {
  std::vector<Case> apart;
  for (index tokens : rows) {
    Case one = make(type, tokens, n, k, {}, rng);
    if (with_bias) one.add_bias(type.x, rng);
    one.form = form;
    apart.push_back(one);
  }
  constexpr Layout gaps{.row_gap = 3, .misaligned = 1};
  Experts all{{.x = of_all(apart, &Case::x, gaps),
               .rows = of_all(apart, &Case::rows, gaps),
               .y = of_all(apart, &Case::y, gaps),
               .packed = of_all(apart, &Case::packed),
               .bias = of_all(apart, &Case::bias, gaps),
               .form = form,
               .compute = type.compute},
              ends_of(rows)};
  return {std::move(apart), std::move(all)};
}

TEST(linear_experts, are_as_apart) {
  Rng rng(21);
  std::size_t at = 0;
  for (const Types& type : kinds)
    for (Form form : {Form::packed, Form::rows}) {
      ++at;
      const auto& rows = spreads[at % spreads.size()];
      SCOPED_TRACE(at);
      const auto [apart, all] =
          make_experts(type, rows, at % 3 == 0 ? 16 : 35, at % 2 ? 19 : 200, form, at % 3 != 1, rng);
      ASSERT_NO_FATAL_FAILURE(expect_as_apart(apart, all));
    }
}

TEST(linear_experts, of_every_spread) {
  Rng rng(22);
  for (const auto& rows : spreads) {
    const auto [apart, all] = make_experts(kinds[1], rows, 33, 37, Form::packed, true, rng);
    ASSERT_NO_FATAL_FAILURE(expect_as_apart(apart, all));
  }
}

TEST(linear_experts, refusals_name_what_is_wrong) {
  Rng rng(23);
  auto [apart, all] = make_experts(kinds[0], {2, 0, 3}, 20, 8, Form::packed, true, rng);
  Experts start = all;
  const auto with = [&](const std::vector<double>& ends) {
    start.ends = Tensor<1>(DType::i32, {static_cast<index>(ends.size())});
    for (std::size_t e = 0; e < ends.size(); ++e) start.ends.set(static_cast<index>(e), ends[e]);
    return start.op();
  };
  EXPECT_TRUE(ok(check(with({2, 2, 5}))));
  expect_refused(with({2, 1, 5}), {"expert_ends[1]", "is 1", "ascend", "5"});
  expect_refused(with({-1, 2, 5}), {"expert_ends[0]", "is -1"});
  expect_refused(with({2, 6, 5}), {"expert_ends[1]", "is 6"});
  expect_refused(with({2, 2, 4}), {"expert_ends[2]", "is 4", "5, the rows of x"});
  expect_refused(with({2, 2, 6}), {"expert_ends[2]", "is 6"});
  expect_refused(with({2, 5}), {"weight", "[6, 8, 16]", "[4, 8, 16]"});

  Linear<Host> op = all.op();
  op.expert_ends.dtype = DType::i64;
  expect_refused(op, {"expert_ends", "i64", "i32"});
  op = all.op();
  op.expert_ends = ConstView<1>(op.expert_ends.data, DType::i32, {0});
  expect_refused(op, {"expert_ends", "extent 0"});
  op = all.op();
  op.bias.extents[0] = 20;
  expect_refused(op, {"bias", "20", "60"});
  op = all.op();
  op.weight = {};
  op.weight_rows = all.rows;
  op.weight_rows.extents[0] = 59;
  expect_refused(op, {"weight_rows", "[59, 8]", "[60, 8]"});
  op = all.op();
  op.expert_ends.extents[0] = largest_index / 2;
  op.expert_ends.strides[0] = 0;
  EXPECT_FALSE(check(op).ok());
}

}  // namespace
}  // namespace inlay::test
