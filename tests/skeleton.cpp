#include <inlay/ops/skeleton.hpp>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

// Everything that one case needs, so that every backend starts from the same bytes.
struct Case {
  Tensor<2> x, y;
  Tensor<1> intercept;
  float slope = 1.5f;

  Skeleton<Host> op() { return {.x = x, .intercept = intercept, .y = y, .slope = slope}; }
  // Its result before it is rounded to y's type.
  Case unrounded() const { return {x.widened(), y.widened(), intercept, slope}; }
};

Case make(DType type, index rows, index dim, Layout layout, Rng& rng) {
  Case c{.x = {type, {rows, dim}, layout}, .y = {type, {rows, dim}, layout}, .intercept = {DType::f32, {dim}}};
  c.x.uniform(rng);
  c.intercept.uniform(rng);
  c.y.poison();
  return c;
}

// A product and a sum in f32: |error| <= eps |slope x| + eps |y| <= 4 eps for operands below 1.5.
constexpr double ulps = 4;

TEST(skeleton, sweep) {
  Rng rng(1);
  for (DType type : float_types)
    for (index rows : row_counts)
      for (index dim : sizes)
        for (const Layout& layout : layouts) {
          const Case start = make(type, rows, dim, layout, rng);
          against_the_reference(start, [&](const Case& expected, const Case& got) {
            expect_close(got.y, expected.y, ulps, [](index) { return 1.0; });
            EXPECT_TRUE(got.y.gaps_untouched());
          });
        }
}

// The reference needs a witness of its own: a closed form, Eigen, or third-party data.
TEST(skeleton, reference_agrees_with_the_closed_form) {
  Rng rng(2);
  Case c = make(DType::f32, 1, 3, {}, rng);
  for (index i = 0; i < 3; ++i) c.x.set(i, static_cast<double>(i));
  c.intercept.fill(0.25);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index i = 0; i < 3; ++i) EXPECT_EQ(c.y.get(i), 1.5 * static_cast<double>(i) + 0.25);
}

TEST(skeleton, in_place) {
  Rng rng(3);
  const Case start = make(DType::f16, 3, 65, {}, rng);
  Case apart = start.unrounded();
  Reference reference;
  ASSERT_TRUE(ok(run(reference, apart.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    Skeleton<Host> op = got.op();
    op.y = got.x;
    ASSERT_TRUE(ok(run(op)));
    expect_close(got.x, apart.y, ulps, [](index) { return 1.0; });
  });
}

TEST(skeleton, refuses_what_the_contract_does_not_cover) {
  Rng rng(4);
  Case c = make(DType::f32, 2, 8, {}, rng);
  const Refused refused(c.op());
  Tensor<1> seven(DType::f32, {7});
  refused([&](auto& op) { op.intercept = seven; }, {"intercept", "7", "8"});
  refused([&](auto& op) { op.slope = std::numeric_limits<float>::infinity(); }, {"slope", "inf", "finite"});
}

}  // namespace
}  // namespace inlay::test
