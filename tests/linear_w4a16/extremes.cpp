// The ends of integers and floats, and rows that are not finite.
#include "tests/linear_w4a16/case.hpp"

namespace inlay::test {
namespace {

const W4Compute computes[] = {W4Compute::exact_float, W4Compute::int8_activations};

// -127 * 255 and 127 * 255 over a long row: integer sums neither saturate nor overflow.
TEST(linear_w4a16, int8_extremes) {
  Rng rng(21);
  for (index bits : code_bits)
    for (index rows : {1, 2, 5})
      for (double sign : {-1.0, 1.0}) {
        Case c = make({rows, 17, 4100, 0, bits}, Form::zeros, {}, {}, rng);
        c.codes.fill(255);
        c.zeros.fill(0);
        c.x.fill(sign);
        c.compute = W4Compute::int8_activations;
        ASSERT_NO_FATAL_FAILURE(compare(c));
        // Even and odd codes of a word with different signs, and the ends of the codes in turn.
        for (index i = 0; i < c.x.size(); ++i) c.x.set(i, i / 2 % 2 ? sign : -sign);
        for (index i = 0; i < c.codes.size(); ++i) c.codes.set(i, i % 3 ? 255 : bits == 4 ? 0x0f : 128);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  // The ends of a codebook side by side, of one as wide as bytes and of narrow ones.
  for (index rows : {1, 2, 5})
    for (double sign : {-1.0, 1.0})
      for (const auto& [least, largest] :
           {std::pair{-128, 127}, {-12, 12}, {-16, 16}, {-16, 17}, {95, 127}, {94, 127}}) {
        Case c = make({rows, 17, 4100, 0, 4}, Form::codebook, {}, {}, rng);
        for (index i = 0; i < w4_codebook; ++i) c.codebook.set(i, i < 8 ? least : largest);
        c.x.fill(sign);
        c.compute = W4Compute::int8_activations;
        for (int codes : {0x00, 0xff, 0x0f}) {
          c.codes.fill(codes);
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
      }
}

// Rows whose magnitudes lie far apart: each has a power of its own.
TEST(linear_w4a16, huge_and_tiny_rows) {
  Rng rng(22);
  for (W4Compute compute : computes)
    for (index rows : {1, 6, 13})
      for (double magnitude : {0.0, 1e-39, 1e-37, 1e5, 1e30}) {
        Case c = make({rows, 17, 300, 32, rows == 6 ? 8 : 4}, Form::offsets, {}, {}, rng);
        for (index i = 0; i < c.x.size(); ++i) {
          const double of_row[] = {magnitude, 1e30, 1, 1e-30};
          c.x.set(i, c.x.get(i) * of_row[i / 300 % 4]);
        }
        c.compute = compute;
        SCOPED_TRACE(magnitude);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The power of a row follows from its largest x wherever that lies, the last slot included: from any other the sums
// would overflow.
TEST(linear_w4a16, one_x_is_far_larger_than_the_others) {
  Rng rng(23);
  for (W4Compute compute : computes)
    for (index rows : {1, 4})
      for (bool permuted : {false, true})
        for (index k : {33, 131})
          for (index where : {index{0}, index{17}, k - 2, k - 1}) {
            Case c = make({rows, 18, k, 16, 4}, where % 2 ? Form::codebook : Form::symmetric, {}, {}, rng,
                          permuted ? k : -1);
            for (index i = 0; i < c.x.size(); ++i) c.x.set(i, c.x.get(i) * 1e-20);
            for (index t = 0; t < rows; ++t) c.x.set(t * k + where, t % 2 ? 1.9e20 : -1.9e20);
            c.compute = compute;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

// The smallest step is the smallest normal number: below it a segment counts as zeros, and at it nothing is lost.
TEST(linear_w4a16, int8_segments_of_tiny_x_count_as_zeros) {
  Rng rng(25);
  constexpr double edge = 127 * 0x1p-126;
  for (index bits : code_bits)
    for (index rows : {1, 2, 9}) {
      Case c = make({rows, 17, 64, 32, bits}, Form::symmetric, {}, {}, rng);
      c.scales.fill(1);
      for (index i = 0; i < c.x.size(); ++i) c.x.set(i, i / 32 % 2 ? edge : 0.999 * edge);
      c.compute = W4Compute::int8_activations;
      const Weight weight(c);
      on_all(c, [&](const Case& got, bool is_reference) {
        for (index k = 0; k < got.y.size() && !is_reference; ++k) {
          const index n = k % 17;
          ASSERT_EQ(got.y.get(k), edge * (weight.q.row(n).tail(32).sum() - 32 * (1 << (bits - 1)))) << k;
        }
      });
    }
}

// Sums of bytes meet the scale before the step: scales up to where 127 times a segment's |q * scale| + |offset| is
// f32's largest leave nothing behind.
TEST(linear_w4a16, int8_scales_at_the_end_of_the_range) {
  Rng rng(26);
  for (index bits : code_bits)
    for (Form form : {Form::symmetric, Form::zeros, Form::offsets, Form::codebook})
      for (index rows : {1, 2, 9}) {
        Case c = make({rows, 17, 70, 32, bits}, form, {}, {}, rng);
        if (form == Form::codebook) c.codebook.set(15, 127);
        const double largest = form == Form::codebook ? 255 : (1 << bits) - 1,
                     scale = 0.99 * 0x1p128 / (127 * 32 * 2 * largest);
        c.codes.fill(255);
        for (index i = 0; i < c.scales.size(); ++i) c.scales.set(i, scale);
        for (index i = 0; i < c.offsets.size(); ++i) c.offsets.set(i, i % 2 ? scale * largest : -scale * largest / 2);
        for (index i = 0; i < c.x.size(); ++i) c.x.set(i, i / 70 % 2 ? -1e-32 : 1e-32);
        c.compute = W4Compute::int8_activations;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(linear_w4a16, a_row_that_is_not_finite_stays_so_and_leaves_the_others_alone) {
  Rng rng(24);
  for (W4Compute compute : computes)
    for (double bad : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()})
      for (index where : {0, 41, 99, 100})
        for (index rows : {1, 3, 7}) {
          const Case healthy = make({rows, 33, 101, 32, 4}, where % 2 ? Form::codebook : Form::symmetric, {}, {}, rng);
          Case start = healthy;
          start.compute = compute;
          start.x.set((rows > 1 ? 101 : 0) + where, bad);
          on_every_form(compute, [&](const std::string& label, auto run) {
            Case got = start, other = healthy;
            other.compute = compute;
            ASSERT_TRUE(ok(run(got.op())));
            ASSERT_TRUE(ok(run(other.op())));
            for (index k = 0; k < got.y.size(); ++k) {
              if (k / 33 != (rows > 1)) {
                ASSERT_EQ(got.y.get(k), other.y.get(k)) << k;
              } else {
                ASSERT_FALSE(std::isfinite(got.y.get(k))) << k;
                // (docs/ops/linear_w4a16.md)
                if (compute == W4Compute::int8_activations && label != "test device") {
                  ASSERT_TRUE(std::isnan(got.y.get(k))) << k;
                }
              }
            }
          });
        }
}

}  // namespace
}  // namespace inlay::test
