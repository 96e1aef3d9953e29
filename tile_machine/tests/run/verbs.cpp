// What arithmetic verbs do to their elements: against double precision, or against the exact rule. Each program runs
// checked and functional, on both kinds of devices, and its bits agree; the checker is silent.
#include <numeric>

#include "tile_machine/tests/run/verb_result.hpp"

namespace inlay::npu {
namespace {

// Values of all magnitudes that the function is asked for.
std::vector<float> spread(float low, float high, bool negative, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(4096);
  for (float& value : values) {
    const double unit = static_cast<double>(random()) / 4294967296.0;
    value = static_cast<float>(std::exp(std::log(low) + unit * (std::log(high) - std::log(low))));
    if (negative && random() % 2 == 0) value = -value;
  }
  return values;
}

double ulp_at(double exact) {
  const auto nearest = std::fabs(static_cast<float>(exact));
  return static_cast<double>(std::nextafter(nearest, infinity)) - nearest;
}

// Most units in the last place between the function in f32 and in double.
double worst_ulps(VectorOp op, const std::vector<float>& x, double (*exact)(double)) {
  const Shape shape{16, static_cast<index>(x.size()) / 16};
  const auto y = result_of<float>(
      shape, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vunary(op, dst, from[0]); },
      Operand<float>{x, shape});
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double right = exact(x[i]);
    worst = std::max(worst, std::fabs(y[i] - right) / ulp_at(right));
  }
  return worst;
}

TEST(Verbs, FunctionsAgreeWithDoublePrecision) {
  EXPECT_LE(worst_ulps(VectorOp::log, spread(1e-44f, 3e38f, false, 1), std::log), 0.51);
  EXPECT_LE(worst_ulps(VectorOp::log, spread(0.99f, 1.01f, false, 2), std::log), 0.51);
  EXPECT_LE(worst_ulps(VectorOp::sqrt, spread(1e-44f, 3e38f, false, 3), std::sqrt), 0.5);
  EXPECT_LE(worst_ulps(VectorOp::tanh, spread(1e-30f, 20, true, 4), std::tanh), 3);
  EXPECT_LE(worst_ulps(VectorOp::erf, spread(1e-30f, 1, true, 5), std::erf), 1.3);
  EXPECT_LE(worst_ulps(VectorOp::erf, spread(1, 8, true, 6), std::erf), 2);
  EXPECT_EQ(worst_ulps(VectorOp::abs, spread(1e-44f, 3e38f, true, 7), std::fabs), 0);
}

TEST(Verbs, FunctionsOfWhatIsNotFinite) {
  const Operand<float> x{{0.0f, -0.0f, -1, infinity, -infinity, nan, 1}, {1, 7}};
  const auto of = [&](VectorOp op) {
    return result_of<float>(
        x.shape, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vunary(op, dst, from[0]); }, x);
  };
  const auto expect = [](const std::vector<float>& y, std::vector<float> right) {
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_TRUE(y[i] == right[i] || (y[i] != y[i] && right[i] != right[i])) << i << ": " << y[i];
  };
  expect(of(VectorOp::log), {-infinity, -infinity, nan, infinity, nan, nan, 0});
  expect(of(VectorOp::sqrt), {0, 0, nan, infinity, nan, nan, 1});
  expect(of(VectorOp::tanh), {0, 0, std::tanh(-1.0f), 1, -1, nan, std::tanh(1.0f)});
  expect(of(VectorOp::erf), {0, 0, std::erf(-1.0f), 1, -1, nan, std::erf(1.0f)});
  expect(of(VectorOp::abs), {0, 0, 1, infinity, infinity, nan, 1});
}

template <class T> void expect_bits_of() {
  const Shape shape{7, 96};
  const Operand<T> x{any_integers<T>(7 * 96, 1), shape}, y{any_integers<T>(7 * 96, 2), shape};
  const auto rule = [](VectorOp op, T a, T b) -> T {
    const int width = 8 * sizeof(T), by = static_cast<int>((static_cast<std::int64_t>(b) % width + width) % width);
    switch (op) {
      case VectorOp::bit_and: return static_cast<T>(a & b);
      case VectorOp::bit_or: return static_cast<T>(a | b);
      case VectorOp::bit_xor: return static_cast<T>(a ^ b);
      case VectorOp::shift_left: return static_cast<T>(static_cast<std::int64_t>(a) * (std::int64_t{1} << by));
      default: return static_cast<T>(std::floor(static_cast<double>(a) / static_cast<double>(std::int64_t{1} << by)));
    }
  };
  for (VectorOp op :
       {VectorOp::bit_and, VectorOp::bit_or, VectorOp::bit_xor, VectorOp::shift_left, VectorOp::shift_right}) {
    const auto both = result_of<T>(
        shape, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vbinary(op, dst, from[0], from[1]); }, x, y);
    const auto three = result_of<T>(
        shape, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vscalar(op, dst, from[0], 3); }, x);
    for (std::size_t i = 0; i < both.size(); ++i) {
      EXPECT_EQ(both[i], rule(op, x.values[i], y.values[i])) << name(op);
      EXPECT_EQ(three[i], rule(op, x.values[i], 3)) << name(op);
    }
  }
}

TEST(Verbs, BitsOfIntegers) {
  expect_bits_of<std::int32_t>();
  expect_bits_of<std::int8_t>();
  expect_bits_of<std::uint8_t>();
}

// A whole number keeps i32 exact beyond the 24 bits of f32.
TEST(Verbs, IntegersWrapAndKeepTheirBits) {
  const Operand<std::int32_t> x{{0x7fffffff, 16777217, -16777219, 5}, {1, 4}};
  const auto by = [&](VectorOp op, std::int32_t number) {
    return result_of<std::int32_t>(
        x.shape, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vscalar(op, dst, from[0], number); }, x);
  };
  EXPECT_EQ(by(VectorOp::add, 1), (std::vector<std::int32_t>{INT32_MIN, 16777218, -16777218, 6}));
  EXPECT_EQ(by(VectorOp::mul, 3), (std::vector<std::int32_t>{0x7ffffffd, 50331651, -50331657, 15}));
  EXPECT_EQ(by(VectorOp::div, 2), (std::vector<std::int32_t>{0x3fffffff, 8388608, -8388609, 2}));
  const auto sums = result_of<std::int32_t>(
      {1, 1}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vreduce(VectorOp::reduce_sum, dst, from[0]); }, x);
  EXPECT_EQ(sums[0], INT32_MIN + 2);
}

template <class T> void expect_comparisons(const std::vector<T>& values) {
  const auto n = static_cast<index>(values.size());
  const Operand<T> row{values, {1, n}}, column{values, {n, 1}};
  const std::pair<Compare, bool (*)(T, T)> rules[] = {
      {Compare::less, [](T a, T b) { return a < b; }},    {Compare::less_equal, [](T a, T b) { return a <= b; }},
      {Compare::greater, [](T a, T b) { return a > b; }}, {Compare::greater_equal, [](T a, T b) { return a >= b; }},
      {Compare::equal, [](T a, T b) { return a == b; }},  {Compare::not_equal, [](T a, T b) { return a != b; }}};
  for (const auto& [how, rule] : rules) {
    const auto mask = result_of<std::uint8_t>(
        {n, n},
        [&, how = how](Core& m, const Tensor& dst, const Tiles& from) { m.vcompare(how, dst, from[0], from[1]); },
        column, row);
    const auto with_one = result_of<std::uint8_t>(
        {1, n},
        [&, how = how](Core& m, const Tensor& dst, const Tiles& from) { m.vcompare(how, dst, from[0], values[1]); },
        row);
    for (index r = 0; r < n; ++r)
      for (index c = 0; c < n; ++c)
        EXPECT_EQ(mask[static_cast<std::size_t>(r * n + c)],
                  rule(values[static_cast<std::size_t>(r)], values[static_cast<std::size_t>(c)]));
    for (index c = 0; c < n; ++c)
      EXPECT_EQ(with_one[static_cast<std::size_t>(c)], rule(values[static_cast<std::size_t>(c)], values[1]));
  }
}

TEST(Verbs, Comparisons) {
  expect_comparisons<float>({nan, 1, -infinity, infinity, -0.0f, 0.0f, 1.0000001f});
  expect_comparisons<std::int32_t>({16777217, 16777216, INT32_MIN, INT32_MAX, 0, -1});
}

// A causal mask in three verbs: position of the key above that of the query.
TEST(Verbs, IotaCountsRowsAndColumns) {
  const auto positions = result_of<std::int32_t>({5, 9}, [](Core& m, const Tensor& dst, const Tiles&) {
    m.viota(dst, {.first = 16777210, .column_step = 3, .row_step = -100});
  });
  for (int r = 0; r < 5; ++r)
    for (int c = 0; c < 9; ++c) EXPECT_EQ(positions[static_cast<std::size_t>(r * 9 + c)], 16777210 - 100 * r + 3 * c);
  const auto halves = result_of<f16>({1, 8}, [](Core& m, const Tensor& dst, const Tiles&) { m.viota(dst, {2047, 1}); });
  EXPECT_EQ(static_cast<float>(halves[2]), 2048);  // 2049: a tie, to even
  EXPECT_EQ(static_cast<float>(halves[4]), 2052);
}

TEST(Verbs, ReductionsOfColumnsAndRows) {
  const Shape shape{37, 300};
  const Operand<float> x{random_values<float>(37 * 300, -4, 4, 11), shape};
  const auto at = [&](index r, index c) { return x.values[static_cast<std::size_t>(r * 300 + c)]; };
  const auto of_columns = [&](VectorOp op) {
    return result_of<float>(
        {1, 300}, [&](Core& m, const Tensor& dst, const Tiles& from) { m.vreduce_columns(op, dst, from[0]); }, x);
  };
  const auto sums = of_columns(VectorOp::column_sum), tops = of_columns(VectorOp::column_max);
  for (index c = 0; c < 300; ++c) {
    double sum = 0, magnitude = 0;
    float top = -infinity;
    for (index r = 0; r < 37; ++r) {
      sum += at(r, c);
      magnitude += std::fabs(at(r, c));
      top = std::max(top, at(r, c));
    }
    EXPECT_NEAR(sums[static_cast<std::size_t>(c)], sum, 37 * magnitude * 0x1p-24);
    EXPECT_EQ(tops[static_cast<std::size_t>(c)], top);
  }
  const auto low = result_of<float>(
      {37, 1}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vreduce(VectorOp::reduce_min, dst, from[0]); }, x);
  for (index r = 0; r < 37; ++r)
    EXPECT_EQ(low[static_cast<std::size_t>(r)],
              *std::min_element(x.values.begin() + r * 300, x.values.begin() + (r + 1) * 300));
}

// Ties go to the smaller column, NaN to the end.
TEST(Verbs, TheLargestOfEachRow) {
  Operand<float> x{random_values<float>(9 * 70, -3, 3, 12), {9, 70}};
  for (float& value : x.values) value = std::nearbyint(value);  // many ties
  x.values[3] = nan;
  x.values[70] = nan;
  std::fill_n(x.values.begin() + 140, 70, nan);
  for (index k : {1, 5, 70}) {
    const auto half = [&](bool wanted_columns) {
      return [&, wanted_columns](Core& m, const Tensor& dst, const Tiles& from) {
        const DType other_type = wanted_columns ? DType::f32 : DType::i32;
        const Tensor other = m.alloc("other half", Space::vector, {9, k}, other_type);
        const Tensor &values = wanted_columns ? other : dst, &columns = wanted_columns ? dst : other;
        if (k == 1)
          m.vargmax(values, columns, from[0]);
        else
          m.vtopk(values, columns, from[0]);
      };
    };
    const auto columns = result_of<std::int32_t>({9, k}, half(true), x);
    const auto values = result_of<float>({9, k}, half(false), x);
    for (index r = 0; r < 9; ++r) {
      const auto value = [&](index c) { return x.values[static_cast<std::size_t>(r * 70 + c)]; };
      std::vector<index> order(70);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](index a, index b) {
        return (std::isnan(value(a)) ? -HUGE_VAL : value(a)) > (std::isnan(value(b)) ? -HUGE_VAL : value(b));
      });
      for (index c = 0; c < k; ++c) {
        const auto place = static_cast<std::size_t>(r * k + c);
        EXPECT_EQ(columns[place], order[static_cast<std::size_t>(c)]) << r << ", " << c << " of " << k;
        const float right = value(order[static_cast<std::size_t>(c)]);
        EXPECT_TRUE(values[place] == right || (std::isnan(values[place]) && std::isnan(right)));
      }
    }
  }
}

}  // namespace
}  // namespace inlay::npu
