// What the verbs do to their elements: against double precision, or against the exact rule. Each program runs
// checked and functional, on both kinds of devices, and its bits agree; the checker is silent.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/machine/support/programs.hpp"

namespace inlay::npu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// An operand of a verb: its values and its shape.
template <class T> struct Operand {
  std::vector<T> values;
  Shape shape;
};

// The result of `body(core, dst, sources)` where both modes and both devices agree on it.
template <class Out, class Body, class... In>
std::vector<Out> result_of(Shape shape, const Body& body, const Operand<In>&... sources) {
  std::vector<Out> first;
  const auto program = [&](Core& m, const Tensor& out, std::initializer_list<Tensor> global) {
    std::vector<Tensor> tiles;
    for (const Tensor& from : global) {
      tiles.push_back(m.alloc("source", Space::vector, from.shape, from.dtype));
      m.copy(tiles.back(), from);
    }
    const Tensor dst = m.alloc("result", Space::vector, shape, out.dtype);
    m.barrier_all();
    body(m, dst, tiles);
    m.barrier_all();
    m.copy(out, dst);
  };
  for (const Device& device : {split_device(1), flat_device(1)}) {
    const auto on = [&](auto& machine, std::vector<Out>& out) {
      const Tensor to = machine.global("out", std::span(out), shape, Use::out);
      const std::array<Tensor, sizeof...(In)> from{
          machine.global("source", std::span(std::as_const(sources.values)), sources.shape)...};
      return [&program, to, from](Core& m) {
        [&]<std::size_t... i>(std::index_sequence<i...>) { program(m, to, {from[i]...}); }
        (std::make_index_sequence<sizeof...(In)>{});
      };
    };
    const auto count = static_cast<std::size_t>(shape.rows * shape.columns);
    std::vector<Out> checked(count), fast(count);
    Machine slow(device);
    const auto checked_program = on(slow, checked);
    expect_clean(slow, checked_program);
    FunctionalMachine quick(device);
    expect_no_reports(quick.run(on(quick, fast)), device.name);
    EXPECT_EQ(std::memcmp(checked.data(), fast.data(), count * sizeof(Out)), 0) << device.name;
    if (first.empty()) first = checked;
    EXPECT_EQ(std::memcmp(checked.data(), first.data(), count * sizeof(Out)), 0) << device.name;
  }
  return first;
}

using Tiles = std::vector<Tensor>;

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

template <class T> std::vector<T> any_integers(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random());
  return values;
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

TEST(Verbs, GatherPicksElements) {
  const Operand<f16> table{random_values<f16>(300, -4, 4, 13), {1, 300}},
      rows{random_values<f16>(6 * 40, -4, 4, 14), {6, 40}};
  Operand<std::int32_t> places{{}, {6, 96}};
  for (int i = 0; i < 6 * 96; ++i) places.values.push_back(i * 37 % 310 - 5);
  const auto run = [&](const Operand<f16>& a) {
    return result_of<f16>(
        places.shape, [](Core& m, const Tensor& dst, const Tiles& from) { m.vgather(dst, from[0], from[1]); }, a,
        places);
  };
  const auto looked_up = run(table), of_rows = run(rows);
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < 96; ++c) {
      const auto at = static_cast<std::size_t>(r * 96 + c);
      const int from = places.values[at];
      const auto one = [&](int width, std::size_t row, const std::vector<f16>& values) {
        return from < 0 || from >= width
                   ? 0
                   : values[row * static_cast<std::size_t>(width) + static_cast<std::size_t>(from)].bits;
      };
      EXPECT_EQ(looked_up[at].bits, one(300, 0, table.values));
      EXPECT_EQ(of_rows[at].bits, one(40, static_cast<std::size_t>(r), rows.values));
    }
}

TEST(Verbs, OneScaleForAGroupOfColumns) {
  const Operand<std::int8_t> codes{any_integers<std::int8_t>(5 * 600, 15), {5, 600}};
  for (index group : {1, 32, 100, 128, 700})
    for (index rows : {index{1}, index{5}}) {
      const index groups = (600 + group - 1) / group;
      const Operand<float> scales{random_values<float>(static_cast<std::size_t>(rows * groups), 0.5f, 2, 16),
                                  {rows, groups}};
      const auto y = result_of<float>(
          codes.shape,
          [&](Core& m, const Tensor& dst, const Tiles& from) {
            m.vgrouped(VectorOp::mul, dst, from[0], from[1], group);
          },
          codes, scales);
      for (index r = 0; r < 5; ++r)
        for (index c = 0; c < 600; ++c) {
          const auto at = static_cast<std::size_t>(r * 600 + c);
          const float scale = scales.values[static_cast<std::size_t>((rows == 1 ? 0 : r) * groups + c / group)];
          ASSERT_EQ(y[at], static_cast<float>(codes.values[at]) * scale) << group;
        }
    }
}

// i32 in one rounding: by way of f32 it would be two.
TEST(Verbs, CastsRoundOnceAndSaturate) {
  const auto cast = []<class To>(To, const auto& from, Round round = Round::nearest) {
    return result_of<To>(
        from.shape, [&](Core& m, const Tensor& dst, const Tiles& x) { m.vcast(dst, x[0], round); }, from);
  };
  const Operand<std::int32_t> whole{{0x01010001, -0x01010001, INT32_MAX, 127, 128, -129, 16777217}, {1, 7}};
  const auto narrow = cast(bf16{}, whole);
  for (std::size_t i = 0; i < whole.values.size(); ++i)
    EXPECT_EQ(narrow[i].bits, bf16(round_to_odd(whole.values[i])).bits) << i;
  EXPECT_NE(narrow[0].bits, bf16(static_cast<float>(whole.values[0])).bits);
  EXPECT_EQ(cast(std::int8_t{}, whole), (std::vector<std::int8_t>{127, -128, 127, 127, 127, -128, 127}));
  EXPECT_EQ(cast(std::int32_t{}, whole), whole.values);
  EXPECT_EQ(cast(float{}, whole)[6], 16777216.0f);

  const Operand<float> x{{2.5f, 3.5f, -2.5f, 0.7f, -0.7f, 300, -300, nan, infinity, -infinity, 3e9f}, {1, 11}};
  EXPECT_EQ(cast(std::int8_t{}, x), (std::vector<std::int8_t>{2, 4, -2, 1, -1, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::floor),
            (std::vector<std::int8_t>{2, 3, -3, 0, -1, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::ceil),
            (std::vector<std::int8_t>{3, 4, -2, 1, 0, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int8_t{}, x, Round::zero),
            (std::vector<std::int8_t>{2, 3, -2, 0, 0, 127, -128, 0, 127, -128, 127}));
  EXPECT_EQ(cast(std::int32_t{}, x)[10], INT32_MAX);
}

// Four bits: saturated to their range, two to a byte, and back.
TEST(Verbs, CastsToFourBits) {
  const Operand<float> x{random_values<float>(3 * 64, -20, 20, 17), {3, 64}};
  for (DType type : {DType::i4, DType::u4}) {
    const auto back = result_of<std::int8_t>(
        x.shape,
        [&](Core& m, const Tensor& dst, const Tiles& from) {
          const Tensor codes = m.alloc("codes", Space::vector, {3, 64}, type);
          m.vcast(codes, from[0]);
          m.barrier(Pipe::vector);
          m.unpack4(dst, codes);
        },
        x);
    const float low = type == DType::i4 ? -8 : 0;
    for (std::size_t i = 0; i < back.size(); ++i)
      EXPECT_EQ(back[i], std::clamp(std::nearbyint(x.values[i]), low, low + 15)) << name(type);
  }
}

template <class T> void expect_transpose() {
  const Operand<T> x{random_values<T>(33 * 70, -100, 100, 18), {33, 70}};
  const auto y = result_of<T>(
      {70, 33}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vtranspose(dst, from[0]); }, x);
  for (std::size_t r = 0; r < 33; ++r)
    for (std::size_t c = 0; c < 70; ++c) EXPECT_EQ(y[c * 33 + r], x.values[r * 70 + c]);
}

TEST(Verbs, LayoutsChangeAndComeBack) {
  expect_transpose<std::int8_t>();
  expect_transpose<f16>();
  expect_transpose<float>();
  const Operand<f16> x{random_values<f16>(33 * 70, -4, 4, 19), {33, 70}};
  const auto y = result_of<f16>(
      x.shape,
      [](Core& m, const Tensor& dst, const Tiles& from) {
        const Tensor packed = m.alloc("packed", Space::vector, {33, 70}, DType::f16, Layout::nz);
        m.vpack_nz(packed, from[0]);
        m.barrier(Pipe::vector);
        m.vunpack_nz(dst, packed);
      },
      x);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i].bits, x.values[i].bits);
}

TEST(Verbs, SelectMovesBits) {
  const Operand<std::int32_t> a{any_integers<std::int32_t>(64, 20), {1, 64}},
      b{any_integers<std::int32_t>(64, 21), {1, 64}};
  Operand<std::uint8_t> mask{{}, {1, 64}};
  for (std::uint8_t i = 0; i < 64; ++i) mask.values.push_back(i % 3);
  const auto y = result_of<std::int32_t>(
      {1, 64}, [](Core& m, const Tensor& dst, const Tiles& from) { m.vselect(dst, from[0], from[1], from[2]); }, mask,
      a, b);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], i % 3 != 0 ? a.values[i] : b.values[i]);
}

TEST(Verbs, TheScalarUnitWritesOneElement) {
  const auto y = result_of<std::int32_t>({2, 8}, [](Core& m, const Tensor& dst, const Tiles&) {
    m.vfill(dst, 7);
    m.set(Pipe::vector, Pipe::scalar, 0);
    m.wait(Pipe::vector, Pipe::scalar, 0);
    m.scalar_write(dst, 1, 2, 2147483646.6);
    m.scalar_write(dst, 0, 3, m.scalar_read(dst, 1, 2) - 5);
  });
  EXPECT_EQ(y[10], INT32_MAX);
  EXPECT_EQ(y[3], INT32_MAX - 5);
  EXPECT_EQ(y[0], 7);
}

// One report whose message has the part.
void expect_refused(const Device& device, const char* part, const std::function<void(Core&)>& program) {
  Machine machine(device);
  const Outcome outcome = machine.run(program);
  ASSERT_EQ(outcome.reports.size(), 1u) << part;
  EXPECT_EQ(outcome.reports[0].kind, ReportKind::illegal_path);
  EXPECT_NE(outcome.reports[0].message.find(part), std::string::npos) << outcome.reports[0].message;
  EXPECT_FALSE(FunctionalMachine(device).run(program).empty());
}

TEST(Verbs, WhatTheDeviceDoesNotHaveIsRefused) {
  Device device = split_device(1);
  device.vector.cost[static_cast<std::size_t>(VectorOp::erf)].available = false;
  const auto tile = [](Core& m, Shape shape, DType dtype) { return m.alloc("tile", Space::vector, shape, dtype); };
  expect_refused(device, "vunary at verbs.cpp", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vunary(VectorOp::erf, x, x);
  });
  expect_refused(device, "split has no vector operation erf: its description gives it no price", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vunary(VectorOp::erf, x, x);
  });
  expect_refused(device, "does not compute with 1 x 8 i4", [&](Core& m) { m.vfill(tile(m, {1, 8}, DType::i4), 1); });
  expect_refused(device, "does not compute with 1 x 8 i64", [&](Core& m) { m.vfill(tile(m, {1, 8}, DType::i64), 1); });
  expect_refused(device, "it takes i32, i8 or u8, not 1 x 8 f32", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vscalar(VectorOp::bit_and, x, x, 1);
  });
  expect_refused(device, "bits need a whole number", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::i32);
    m.vscalar(VectorOp::bit_and, x, x, 1.0f);
  });
  expect_refused(device, "group is 0; it must be 1 or more", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vgrouped(VectorOp::mul, x, x, tile(m, {1, 1}, DType::f32), 0);
  });
  expect_refused(device, "the shapes of 1 x 3 f32 in vector and 1 x 8 f32 in vector do not fit", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32);
    m.vgrouped(VectorOp::mul, x, x, tile(m, {1, 3}, DType::f32), 4);
  });
  expect_refused(device, "columns are i32, not 1 x 1 f32", [&](Core& m) {
    const Tensor x = tile(m, {1, 8}, DType::f32), y = tile(m, {1, 1}, DType::f32);
    m.vargmax(y, tile(m, {1, 1}, DType::f32), x);
  });
  expect_refused(device, "it orders what f32 holds", [&](Core& m) {
    const Tensor y = tile(m, {1, 1}, DType::i32);
    m.vargmax(y, tile(m, {1, 1}, DType::i32), tile(m, {1, 8}, DType::i32));
  });
  expect_refused(device, "the scalar unit does not reach", [&](Core& m) {
    m.scalar_write(m.alloc("acc", Space::accumulator, {1, 8}, DType::f32), 0, 0, 1);
  });
}

}  // namespace
}  // namespace inlay::npu
