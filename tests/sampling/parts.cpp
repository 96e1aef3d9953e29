// The parts of the kernel that no result shows alone: its heap, its exponential, and the draw at the edges of u.
#include <algorithm>
#include <numeric>

#include "cpu_kernels/sampling_row.hpp"
#include "tests/support/sampling_case.hpp"

namespace inlay::test {
namespace {

TEST(sampling, a_heap_gives_its_elements_in_order) {
  Rng rng(51);
  for (index size = 0; size <= 40; ++size)
    for (int round = 0; round < 20; ++round) {
      std::vector<int> keys(static_cast<std::size_t>(size));
      for (int& key : keys) key = static_cast<int>(rng() % (round % 2 ? 5 : 1000));
      const auto before = [&](index a, index b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; };
      std::vector<std::int32_t> heap(keys.size()), expected(keys.size());
      std::iota(expected.begin(), expected.end(), 0);
      std::shuffle(expected.begin(), expected.end(), rng);
      heap = expected;
      std::sort(expected.begin(), expected.end(), before);
      cpu::make_heap(heap.data(), size, before);
      for (index taken = 0; taken < size; ++taken) {
        ASSERT_EQ(cpu::pop_heap(heap.data(), size - taken, before), expected[static_cast<std::size_t>(taken)]);
        ASSERT_EQ(heap[static_cast<std::size_t>(size - taken - 1)], expected[static_cast<std::size_t>(taken)]);
      }
    }
}

double exp_of(double z) {
  double in[simd::exp_width], out[simd::exp_width];
  std::fill_n(in, simd::exp_width, -1.0);
  in[3] = z;
  simd::exp_not_positive(in, out);
  EXPECT_EQ(out[0], out[7]);
  return out[3];
}

TEST(sampling, exp_in_double) {
  EXPECT_EQ(exp_of(0), 1);
  EXPECT_EQ(exp_of(-0.0), 1);
  EXPECT_GT(exp_of(simd::exp_lowest), 0);
  EXPECT_EQ(exp_of(std::nextafter(simd::exp_lowest, -1e9)), 0);
  EXPECT_EQ(exp_of(-1e300), 0);
  EXPECT_EQ(exp_of(-std::numeric_limits<double>::infinity()), 0);
  // Digits of e^-1 and e^-20 from the table of constants in Abramowitz & Stegun, 4.2.
  EXPECT_NEAR(exp_of(-1), 0.36787944117144233, 1e-16);
  EXPECT_NEAR(exp_of(-20) * 1e9, 2.0611536224385578, 1e-15);
}

// 1 ulp, of which half is the last rounding's.
TEST(sampling, exp_in_double_is_within_its_bound) {
  double worst = 0;
  Rng rng(52);
  std::uniform_real_distribution<double> low(simd::exp_lowest, 0), high(-2, 0);
  for (int i = 0; i < 100000; ++i) {
    const double z = i % 2 ? low(rng) : high(rng);
    const long double exact = std::exp(static_cast<long double>(z));
    int exponent;
    std::frexp(static_cast<double>(exact), &exponent);
    worst = std::max(worst, static_cast<double>(std::abs(exp_of(z) - exact)) / std::ldexp(1.0, exponent - 53));
  }
  EXPECT_LT(worst, 1.01);
  EXPECT_GT(worst, 0.5);
}

// The first candidate whose running sum passes u times the whole: not the one that only reaches it.
TEST(sampling, the_draw_at_the_edges_of_its_number) {
  constexpr index count = 256;
  std::vector<double> weights(count, 0.25);
  cpu::Candidates<isa::scalar> candidates{};
  candidates.weight = weights.data(), candidates.count = count;
  for (index j = 0; j < count; ++j) {
    const double u = static_cast<double>(j) / count;
    ASSERT_EQ(candidates.draw(u), j);
    ASSERT_EQ(candidates.draw(std::nextafter(u, 1.0)), j);
    if (j > 0) {
      ASSERT_EQ(candidates.draw(std::nextafter(u, 0.0)), j - 1);
    }
  }
  EXPECT_EQ(candidates.draw(1 - 0x1p-53), count - 1);
  for (index size : {1, 63, 64, 65, 127, 130}) {  // sums with rest
    candidates.count = size;
    EXPECT_EQ(candidates.draw(0), 0);
    EXPECT_EQ(candidates.draw(1 - 0x1p-53), size - 1);
    EXPECT_EQ(candidates.total(), 0.25 * static_cast<double>(size));
  }
  weights.assign(count, 0x1p-60);
  weights[200] = 1;
  candidates.count = count;
  EXPECT_EQ(candidates.draw(0), 0);
  EXPECT_EQ(candidates.draw(0.5), 200);
}

}  // namespace
}  // namespace inlay::test
