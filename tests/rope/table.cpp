// RopeTable: angles of any size against long double, positions of every kind.
#include <inlay/ops/rope.hpp>
#include <inlay/weights/rope_frequencies.hpp>

#include "cpu_kernels/simd/sincos.hpp"
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

struct Case {
  Tensor<2> positions, inv_freq;
  Tensor<1> axis = {};
  Tensor<2> cos, sin;
  float magnitude = 1;

  RopeTable<Host> op() {
    return {.positions = positions, .inv_freq = inv_freq, .axis = axis, .cos = cos, .sin = sin, .magnitude = magnitude};
  }
};

Case make(DType ids, index axes, index tokens, index rows, index pairs, Layout layout) {
  Case c{.positions = {ids, {axes, tokens}, layout},
         .inv_freq = {DType::f32, {rows, pairs}, {layout.row_gap + 1, layout.misaligned}},
         .cos = {DType::f32, {tokens, pairs}, {layout.row_gap + 2, layout.misaligned}},
         .sin = {DType::f32, {tokens, pairs}, {layout.row_gap + 4, layout.misaligned}}};
  c.cos.poison(), c.sin.poison();
  return c;
}

// The angle is a product in double. Its sine and cosine are right to a few 2^-53, and one rounding to f32 follows:
// no room for a second one.
void expect_turns(const Tensor<2>& got, const std::vector<double>& exact, const Case& c, const char* name) {
  for (index k = 0; k < got.size(); ++k) {
    const double right = exact[static_cast<std::size_t>(k)];
    const double bound = half_ulp(DType::f32, right) + 8 * 0x1p-53 * std::abs(c.magnitude);
    ASSERT_LE(std::abs(got.get(k) - right), bound)
        << name << ", element " << k << ": " << got.get(k) << ", not " << right;
  }
}

void compare(const Case& start) {
  const index pairs = start.cos.extents()[1], tokens = start.cos.extents()[0];
  std::vector<double> cosines, sines;
  for (index t = 0; t < tokens; ++t)
    for (index i = 0; i < pairs; ++i) {
      double frequency = start.inv_freq.get(i);
      if (start.inv_freq.extents()[0] == 2) frequency += start.inv_freq.get(pairs + i);
      const index axis = start.axis.present() ? static_cast<index>(start.axis.get(i)) : 0;
      const double angle = start.positions.get(axis * tokens + t) * frequency;
      cosines.push_back(static_cast<double>(start.magnitude * std::cos(static_cast<long double>(angle))));
      sines.push_back(static_cast<double>(start.magnitude * std::sin(static_cast<long double>(angle))));
    }
  against_the_reference(start, [&](const Case&, const Case& got) {  // the test device gives the reference's
    expect_turns(got.cos, cosines, start, "cosine");
    expect_turns(got.sin, sines, start, "sine");
    EXPECT_TRUE(got.cos.gaps_untouched() && got.sin.gaps_untouched());
  });
}

// Tokens around the sixteen that a task has, pairs around the eight that are computed at once.
TEST(rope_table, sweep) {
  Rng rng(1);
  for (DType ids : {DType::i32, DType::i64})
    for (index pairs : {0, 1, 7, 8, 9, 16, 33})
      for (index rows : {1, 2})
        for (index tokens : {0, 1, 3, 16, 17, 40}) {
          const index axes = 1 + (pairs + tokens) % 4;
          Case c = make(ids, axes, tokens, rows, pairs, layouts[static_cast<std::size_t>(pairs + rows) % 3]);
          c.positions.integers(rng, -100000, 1000000);
          c.inv_freq.uniform(rng, -1, 1);
          for (index i = 0; rows == 2 && i < pairs; ++i) c.inv_freq.set(pairs + i, c.inv_freq.get(i) * 0x1p-26);
          if (tokens % 2) c.axis = Tensor<1>(DType::i32, {pairs}).integers(rng, 0, axes - 1);
          if (tokens != 3) c.magnitude = tokens == 16 ? -0.75f : 1.1386294f;
          ASSERT_NO_FATAL_FAILURE(compare(c));
        }
}

// Of a model, as far out as positions go: 2^20 and beyond, past the reach of the fast reduction, and back.
TEST(rope_table, far_positions) {
  const std::vector<double> places = {0,          1,           -1,          2,          100,        4095,
                                      131071,     1 << 20,     1000003,     10000019,   -70000,     1 << 28,
                                      2147483647, 2147483648., 4294967297., -0x1p33,    0x1p40 + 1, -0x1p41 - 1,
                                      0x1p37 + 3, -0x1p36 - 5, 0x1p52 - 1,  -0x1p51 - 1};
  for (double theta : {10000.0, 500000.0, 1e6})
    for (index dim : {2, 18, 128}) {
      const RopeFrequencies frequencies = *rope_frequencies({.rotary_dim = dim, .theta = theta});
      Case c = make(DType::i64, 1, static_cast<index>(places.size()), 2, dim / 2, {});
      for (index k = 0; k < c.inv_freq.size(); ++k) c.inv_freq.set(k, frequencies.rows[k]);
      for (index t = 0; t < c.positions.size(); ++t) c.positions.set(t, places[t]);
      ASSERT_NO_FATAL_FAILURE(compare(c));
      // The two rows of a frequency hold it to 2^-48, so that an angle of 2^28 is right to 2^-20.
      for (index t = 0; t < c.positions.size(); ++t)
        for (index i = 0; i < dim / 2; ++i) {
          const long double angle = places[t] * std::pow(static_cast<long double>(theta), -2.0L * i / dim);
          ASSERT_NEAR(places[t] * frequencies[i], static_cast<double>(angle),
                      std::abs(static_cast<double>(angle)) * 0x1p-48);
        }
    }
}

// Eight angles are computed at once: one beyond the reach among them, in every place, and those around the reach.
TEST(rope_table, the_reach_of_the_reduction) {
  Case c = make(DType::i64, 1, 9, 1, 11, {});
  for (index i = 0; i < 11; ++i) c.inv_freq.set(i, i % 2 ? 1 : 0.7853981);
  for (index t = 0; t < 9; ++t) c.positions.set(t, simd::sincos_reach + static_cast<double>(t) - 4);
  ASSERT_NO_FATAL_FAILURE(compare(c));
  for (index place = 0; place < 11; ++place) {
    for (index i = 0; i < 11; ++i) c.inv_freq.set(i, i == place ? 0x1p20 : 0x1p-20);
    for (index t = 0; t < 9; ++t) c.positions.set(t, 1048583 + 77777 * static_cast<double>(t));
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Multiples of a quarter turn, where one of the two is all rounding error of the reduction.
TEST(rope_table, near_multiples_of_a_quarter_turn) {
  Case c = make(DType::i32, 1, 257, 2, 9, {});
  const long double half_pi = 1.57079632679489661923132169163975144L;
  for (index i = 0; i < 9; ++i) {
    const long double frequency = half_pi * (1 + i);
    c.inv_freq.set(i, static_cast<double>(frequency));
    c.inv_freq.set(9 + i, static_cast<double>(frequency - c.inv_freq.get(i)));
  }
  for (index t = 0; t < 257; ++t) c.positions.set(t, static_cast<double>((t - 128) * (t % 3 ? 1 : 1000003)));
  ASSERT_NO_FATAL_FAILURE(compare(c));
}

TEST(rope_table, no_number_gives_no_number) {
  const double inf = std::numeric_limits<double>::infinity();
  for (double frequency : {std::nan(""), inf, -inf})
    on_every_backend([&](const std::string&, auto run) {
      Case c = make(DType::i32, 1, 1, 1, 10, {});
      c.positions.fill(3);
      c.inv_freq.fill(0.5);
      c.inv_freq.set(9, frequency);
      ASSERT_TRUE(ok(run(c.op())));
      EXPECT_TRUE(std::isnan(c.cos.get(9)) && std::isnan(c.sin.get(9)));
      for (index i = 0; i < 9; ++i) {
        EXPECT_EQ(c.cos.get(i), static_cast<float>(std::cos(1.5)));
        EXPECT_EQ(c.sin.get(i), static_cast<float>(std::sin(1.5)));
      }
    });
}

}  // namespace
}  // namespace inlay::test
