// The accumulator's way out: scales, bias, relu and zero point in the order that tiles.hpp states, one rounding; and
// products of four-bit integers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

constexpr index rows = 24, columns = 40, depth = 70;

// What a test asks of a drain; the rows are placed by it.
struct Wish {
  float scale = 1;
  bool relu = false, scale_row = false, bias_row = false;
  std::int32_t zero = 0;
};

template <class In> struct Problem {
  std::vector<In> a, b;  // [rows, depth], [depth, columns]
  std::vector<float> scales = random_values<float>(columns, 0.01f, 0.2f, 3),
                     bias = random_values<float>(columns, -5, 5, 4);

  // Runs checked and functional on both devices; the bits agree.
  template <class Out> std::vector<Out> run(DType in, DType sum, const Wish& wish) const {
    std::vector<Out> first;
    for (const Device& device : {split_device(1), flat_device(1)}) {
      std::vector<Out> checked(rows * columns), fast(checked.size());
      Machine slow(device);
      expect_clean(slow, on<Out>(slow, checked, in, sum, wish));
      FunctionalMachine quick(device);
      expect_no_reports(quick.run(on<Out>(quick, fast, in, sum, wish)), device.name);
      EXPECT_EQ(std::memcmp(checked.data(), fast.data(), checked.size() * sizeof(Out)), 0) << device.name;
      if (first.empty()) first = checked;
      if (sum == DType::i32) {  // f32 sums have the device's order
        EXPECT_EQ(std::memcmp(checked.data(), first.data(), checked.size() * sizeof(Out)), 0) << device.name;
      }
    }
    return first;
  }

 private:
  template <class Out>
  std::function<void(Core&)> on(GlobalMemory& machine, std::vector<Out>& out, DType in, DType sum, Wish wish) const {
    const auto place = [&](const char* name, const std::vector<In>& data, Shape shape) {
      auto* bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data.data()));
      return machine.add(name, bytes, data.size() * sizeof(In), in, shape, Use::in);
    };
    const Tensor left = place("a", a, {rows, depth}), right = place("b", b, {depth, columns});
    const Tensor of_columns = machine.global("scales", std::span(scales), {1, columns});
    const Tensor to_columns = machine.global("bias", std::span(bias), {1, columns});
    const Tensor to = machine.global("out", std::span(out), {rows, columns}, Use::out);
    return [=](Core& m) {
      const auto tile = [&](Space space, Shape shape) { return m.alloc("tile", space, shape, in, Layout::nz); };
      const Tensor staged_a = tile(Space::staging, {rows, depth}), staged_b = tile(Space::staging, {depth, columns});
      DrainOptions options{.scale = wish.scale, .relu = wish.relu, .zero = wish.zero};
      const auto row = [&](const Tensor& from) {
        const Tensor staged = m.alloc("row", Space::staging, {1, columns}, DType::f32);
        m.copy(staged, from);
        return staged;
      };
      if (wish.scale_row) options.scale_row = row(of_columns);
      if (wish.bias_row) options.bias_row = row(to_columns);
      m.nd2nz(staged_a, left);
      m.nd2nz(staged_b, right);
      m.barrier_all();
      const Tensor x = tile(Space::left, {rows, depth}), y = tile(Space::right, {depth, columns});
      m.load_a(x, staged_a);
      m.load_b(y, staged_b);
      m.barrier_all();
      const Tensor acc = m.alloc("acc", Space::accumulator, {rows, columns}, sum);
      m.mma(acc, x, y, true);
      m.barrier_all();
      if (m.device().path(Space::accumulator, Space::global) != nullptr) return m.drain(to, acc, options);
      const Tensor drained = m.alloc("drained", Space::vector, {rows, columns}, to.dtype);
      m.drain(drained, acc, options);
      m.barrier_all();
      m.copy(to, drained);
    };
  }
};

std::int64_t four_bits(const std::vector<std::int8_t>& data, std::size_t at) {
  const int nibble = static_cast<std::uint8_t>(data[at / 2]) >> (at % 2 * 4) & 15;
  return nibble > 7 ? nibble - 16 : nibble;
}

// The exact sums of integers.
template <class At> std::vector<std::int64_t> sums_of(const At& a, const At& b) {
  std::vector<std::int64_t> sums;
  for (index r = 0; r < rows; ++r)
    for (index c = 0; c < columns; ++c) {
      std::int64_t sum = 0;
      for (index k = 0; k < depth; ++k)
        sum += a(static_cast<std::size_t>(r * depth + k)) * b(static_cast<std::size_t>(k * columns + c));
      sums.push_back(sum);
    }
  return sums;
}

Problem<std::int8_t> integers() {
  return {random_values<std::int8_t>(rows * depth, -20, 20, 1),
          random_values<std::int8_t>(depth * columns, -20, 20, 2)};
}

// What stands in tiles.hpp, in f32 as the device does it.
float drained(float sum, const Wish& wish, const Problem<std::int8_t>& problem, std::size_t column) {
  float value = sum * wish.scale;
  if (wish.scale_row) value *= problem.scales[column];
  if (wish.bias_row) value += problem.bias[column];
  return wish.relu && value < 0 ? 0 : value;
}

TEST(Drain, IntegersAreScaledRoundedAndSaturated) {
  const Problem<std::int8_t> problem = integers();
  const auto at = [](const std::vector<std::int8_t>& from) {
    return std::function<std::int64_t(std::size_t)>([&from](std::size_t i) { return from[i]; });
  };
  const auto sums = sums_of(at(problem.a), at(problem.b));
  for (const Wish& wish : {Wish{}, Wish{.scale = 0.01f}, Wish{.scale_row = true}, Wish{.bias_row = true},
                           Wish{.scale = 0.5f, .scale_row = true, .bias_row = true},
                           Wish{.scale = 0.25f, .relu = true, .scale_row = true, .bias_row = true},
                           Wish{.scale = 0.5f, .zero = 3}, Wish{.scale = 0.02f, .relu = true, .zero = -100}}) {
    const auto small = problem.run<std::int8_t>(DType::i8, DType::i32, wish);
    const auto bytes = problem.run<std::uint8_t>(DType::i8, DType::i32, wish);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double rounded =
          std::nearbyint(drained(static_cast<float>(sums[i]), wish, problem, i % columns)) + wish.zero;
      ASSERT_EQ(small[i], std::clamp(rounded, -128.0, 127.0)) << i;
      ASSERT_EQ(bytes[i], std::clamp(rounded, 0.0, 255.0)) << i;
    }
    if (wish.zero != 0) continue;
    const auto halves = problem.run<f16>(DType::i8, DType::i32, wish);
    for (std::size_t i = 0; i < sums.size(); ++i)
      ASSERT_EQ(halves[i].bits, f16(drained(static_cast<float>(sums[i]), wish, problem, i % columns)).bits) << i;
  }
  const auto exact = problem.run<std::int32_t>(DType::i8, DType::i32, {.relu = true});
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(exact[i], std::max<std::int64_t>(0, sums[i]));
}

// Against double precision, within the roundings of a sum of 70 products and of three operations.
TEST(Drain, FloatsAgreeWithDoublePrecision) {
  const Problem<f16> problem{random_values<f16>(rows * depth, -1, 1, 5), random_values<f16>(depth * columns, -1, 1, 6)};
  const Wish wish{.scale = 0.5f, .scale_row = true, .bias_row = true};
  const auto out = problem.run<float>(DType::f16, DType::f32, wish);
  for (index r = 0; r < rows; ++r)
    for (index c = 0; c < columns; ++c) {
      double sum = 0, magnitude = 0;
      for (index k = 0; k < depth; ++k) {
        const double product =
            static_cast<double>(static_cast<float>(problem.a[static_cast<std::size_t>(r * depth + k)])) *
            static_cast<float>(problem.b[static_cast<std::size_t>(k * columns + c)]);
        sum += product;
        magnitude += std::fabs(product);
      }
      const double scale = 0.5 * problem.scales[static_cast<std::size_t>(c)],
                   bias = problem.bias[static_cast<std::size_t>(c)];
      ASSERT_NEAR(out[static_cast<std::size_t>(r * columns + c)], sum * scale + bias,
                  ((depth + 3) * magnitude * scale + std::fabs(bias)) * 0x1p-24);
    }
}

TEST(MatrixUnit, MultipliesFourBitIntegers) {
  Problem<std::int8_t> problem;
  problem.a = random_values<std::int8_t>(rows * depth / 2, -128, 127, 7);
  problem.b = random_values<std::int8_t>(depth * columns / 2, -128, 127, 8);
  const auto at = [](const std::vector<std::int8_t>& from) {
    return std::function<std::int64_t(std::size_t)>([&from](std::size_t i) { return four_bits(from, i); });
  };
  const auto sums = sums_of(at(problem.a), at(problem.b));
  const auto exact = problem.run<std::int32_t>(DType::i4, DType::i32, {});
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(exact[i], sums[i]) << i;
}

void expect_refused(const char* part, const std::function<void(Device&)>& change,
                    const std::function<void(DrainOptions&, Core&)>& ask, DType to) {
  Device device = split_device(1);
  change(device);
  std::vector<float> y(64);
  Machine machine(device);
  const Tensor out = machine.add("y", reinterpret_cast<std::byte*>(y.data()), 256, to, {1, 16}, Use::in_out);
  const auto reports = machine
                           .run([&](Core& m) {
                             const Tensor acc = m.alloc("acc", Space::accumulator, {1, 16}, DType::f32);
                             DrainOptions options;
                             ask(options, m);
                             m.drain(out, acc, options);
                           })
                           .reports;
  ASSERT_EQ(reports.size(), 1u) << part;
  EXPECT_EQ(reports[0].kind, ReportKind::illegal_path);
  EXPECT_NE(reports[0].message.find(part), std::string::npos) << reports[0].message;
}

TEST(Drain, AsksOnlyForWhatTheDeviceHas) {
  const auto form = [](Device& device, DType to) -> DrainForm& {
    return *std::find_if(device.matrix.drain.begin(), device.matrix.drain.end(),
                         [&](const DrainForm& each) { return each.from == DType::f32 && each.to == to; });
  };
  const auto as_it_is = [](Device&) {};
  const auto nothing = [](DrainOptions&, Core&) {};
  const auto row = [](Core& m, Space space, index count) { return m.alloc("row", space, {1, count}, DType::f32); };
  const auto scales = [&](DrainOptions& options, Core& m) { options.scale_row = row(m, Space::staging, 16); };
  expect_refused("split does not drain f32 as i32", as_it_is, nothing, DType::i32);
  expect_refused(
      "split does not scale when it drains f32 as f16",
      [&](Device& device) { form(device, DType::f16).scales = DrainScales::none; },
      [](DrainOptions& options, Core&) { options.scale = 2; }, DType::f16);
  expect_refused(
      "has no scale for each column when it drains f32 as f16",
      [&](Device& device) { form(device, DType::f16).scales = DrainScales::one; }, scales, DType::f16);
  expect_refused(
      "adds no bias when it drains f32 as f16", [&](Device& device) { form(device, DType::f16).bias = false; },
      [&](DrainOptions& options, Core& m) { options.bias_row = row(m, Space::staging, 16); }, DType::f16);
  expect_refused(
      "adds no zero point when it drains f32 as f16", as_it_is, [](DrainOptions& options, Core&) { options.zero = 1; },
      DType::f16);
  expect_refused(
      "a row for the columns lies in staging, not 1 x 16 f32 in vector", as_it_is,
      [&](DrainOptions& options, Core& m) { options.scale_row = row(m, Space::vector, 16); }, DType::f16);
  expect_refused(
      "1 x 8 f32 in staging is no row of f32 for the columns of 1 x 16 f16", as_it_is,
      [&](DrainOptions& options, Core& m) { options.scale_row = row(m, Space::staging, 8); }, DType::f16);
}

}  // namespace
}  // namespace inlay::npu
