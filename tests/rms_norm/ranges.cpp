// Finite rows whose squares are not: beyond f32, or below what it holds.
#include "tests/support/rms_norm_case.hpp"

namespace inlay::test {
namespace {

constexpr DType wide_types[] = {DType::f32, DType::bf16};

// Row 1 is `magnitude` times what it was; those beside it are as ever.
void scale_row(RmsNormCase& c, double magnitude) {
  const index row = c.heads * c.weight.size();
  for (index k = row; k < 2 * row; ++k) {
    c.x.set(k, magnitude * c.x.get(k));
    if (c.residual.present()) c.residual.set(k, magnitude / 2 * c.residual.get(k));
  }
}

void compare_rows_of(double magnitude, const std::vector<float>& epsilons) {
  Rng rng(41);
  for (DType type : wide_types)
    for (DType out : {type, DType::i8})
      for (index dim : {1, 16, 67, 16385})
        for (float eps : epsilons) {
          if (dim == 16385 && eps != 0 && eps != 1e-5f) continue;  // long: once for each way of the NPU
          if (dim == 16385 && (type == DType::f32) == (out == DType::i8)) continue;  // and for each type
          if (dim == 16385 && magnitude < 1e-40) continue;                           // of few bits: no random walk
          SCOPED_TRACE(magnitude);
          RmsNormCase c = rms_norm_case(type, DType::f32, out, 3, 1, dim, layouts[2], rng);
          c.x.set(dim + dim / 2, 0.75);  // a row has an element that does not vanish
          if (dim % 2) c.add_residual(rng);
          if (dim == 67) c.weight_offset = 1;
          scale_row(c, type == DType::bf16 ? std::max(magnitude, 1e-38) : magnitude);
          c.eps = eps;
          ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
        }
}

TEST(rms_norm, squares_beyond_f32) {
  for (double magnitude : {2e17, 2e19, 1e30, 2e38}) compare_rows_of(magnitude, {0, 1e-5f, 1e30f, 3e38f});
}

// Without eps, with one of the same size, and with one at the border of the two ways.
TEST(rms_norm, squares_below_f32) {
  for (double magnitude : {1e-14, 1e-16, 1e-21, 1e-25, 1e-37, 1e-42})
    compare_rows_of(magnitude, {0, 1e-43f, static_cast<float>(magnitude * magnitude), 7.8e-31f, 7.9e-31f});
}

// Neither the large head's power nor the small one's is the other's.
TEST(rms_norm, heads_of_different_ranges) {
  Rng rng(42);
  for (DType type : wide_types)
    for (index dim : {16, 65}) {
      RmsNormCase c = rms_norm_case(type, type, type, 9, 3, dim, {}, rng);
      for (index k = 0; k < c.x.size(); ++k)
        c.x.set(k, c.x.get(k) * (k / dim % 3 == 0 ? 1e38 : k / dim % 3 == 1 ? 1 : 1e-38));
      c.eps = 0;
      ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
    }
}

// Their norms are ordinary numbers while they lie 2^-36 to 2^-120 below the largest.
TEST(rms_norm, small_elements_of_a_large_row) {
  Rng rng(43);
  for (DType type : wide_types)
    for (double largest : {0x1p127, 0x1p70, 0x1p-60}) {
      SCOPED_TRACE(largest);
      RmsNormCase c = rms_norm_case(type, DType::f32, type, 2, 1, 85, {}, rng);
      for (index k = 0; k < c.x.size(); ++k) c.x.set(k, largest * std::exp2(static_cast<double>(-(k % 85))) * 1.2);
      c.eps = 0;
      ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
    }
}

// The sum of a row is that much below and above the largest number.
TEST(rms_norm, sums_around_the_largest_number) {
  Rng rng(44);
  for (double factor : {0.99999, 1.00001}) {
    RmsNormCase c = rms_norm_case(DType::f32, DType::f32, DType::f32, 2, 1, 64, {}, rng);
    c.x.fill(0x1p61 * factor);
    ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
  }
}

// NaN and infinity beside large and beside small numbers; a sum with the residual that is beyond f32.
TEST(rms_norm, rows_of_any_range_that_are_not_finite) {
  Rng rng(45);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (DType type : wide_types)
    for (double magnitude : {3e38, 1e-30})
      for (double bad : {infinity, -infinity, std::nan(""), 3.3e38}) {
        SCOPED_TRACE(bad);
        RmsNormCase c = rms_norm_case(type, DType::f32, type, 3, 1, 33, {}, rng);
        c.add_residual(rng);
        scale_row(c, magnitude);
        c.x.set(33 + 11, bad), c.residual.set(33 + 11, 3.3e38);
        c.eps = 0;
        c.not_finite = true;
        ASSERT_NO_FATAL_FAILURE(compare_rms_norm(c));
        on_every_backend([&](const std::string&, auto run) {
          RmsNormCase got = c;
          ASSERT_TRUE(ok(run(got.op())));
          for (index k = 0; k < 99; ++k) ASSERT_EQ(std::isnan(got.y.get(k)), k / 33 == 1) << k;
        });
      }
}

}  // namespace
}  // namespace inlay::test
