// Products of f16 come bit for bit in the order of the device, whatever the tiles, and near to f64; tiles of awkward
// shapes fit the smallest memory.
#include <cmath>
#include <tuple>

#include "npu_kernels/backend/program.hpp"
#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearInt8<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearW4a16<Host>&, const Choices&);

namespace {

struct Size {
  index m, n, k;
};

// sum over k of x[i, k] * w[j, k] as device.hpp defines it: blocks of k_block, then the accumulator.
float device_order(const f16* x, const f16* w, index k, const Numerics& numerics) {
  const auto step = [&](float a, float b, float s) {
    return numerics.fused_multiply_add ? std::fma(a, b, s) : s + a * b;
  };
  float sum = 0;
  for (index first = 0; first < k; first += numerics.k_block) {
    float block = numerics.k_block == 1 ? sum : 0.0f;
    for (index i = first; i < std::min<index>(k, first + numerics.k_block); ++i) block = step(x[i], w[i], block);
    sum = numerics.k_block == 1 ? block : sum + block;
  }
  return sum;
}

void expect_f16(const Device& device, Size size, Policy policy, std::uint32_t cores) {
  const auto x = random_values<f16>(static_cast<std::size_t>(size.m * size.k), -1, 1, 1);
  const auto w = random_values<f16>(static_cast<std::size_t>(size.n * size.k), -1, 1, 2);
  std::vector<float> y(static_cast<std::size_t>(size.m * size.n));
  Machine machine(device, {.policy = policy, .cores = cores});
  const Linear<Host> op{.x = {x.data(), {size.m, size.k}},
                        .weight_rows = {w.data(), {size.n, size.k}},
                        .y = {y.data(), {size.m, size.n}}};
  const Program made = program(machine, op, {});
  expect_clean(machine, made.body, made.launch);
  for (index i = 0; i < size.m; ++i)
    for (index j = 0; j < size.n; ++j) {
      const f16 *row = x.data() + i * size.k, *column = w.data() + j * size.k;
      const float got = y[static_cast<std::size_t>(i * size.n + j)];
      ASSERT_EQ(got, device_order(row, column, size.k, device.numerics)) << device.name << " at " << i << ", " << j;
      double exact = 0, magnitude = 0;
      for (index k = 0; k < size.k; ++k) {
        exact += static_cast<double>(row[k]) * column[k];
        magnitude += std::abs(static_cast<double>(row[k]) * column[k]);
      }
      // Standard bound: k roundings of a sum of magnitude `magnitude`.
      ASSERT_LE(std::abs(got - exact), static_cast<double>(size.k) * 0x1p-24 * magnitude) << device.name;
    }
}

TEST(LinearProgram, F16InTheOrderOfTheDevice) {
  for (const Device& device : all_devices())
    for (const Size size : {Size{1, 1, 1}, {96, 80, 112}, {33, 65, 257}, {200, 136, 700}})
      expect_f16(device, size, Policy::issue_order, 2);
}

TEST(LinearProgram, F16InEveryOrderOfExecution) {
  for (const Device& device : all_devices())
    for (Policy policy : policies) expect_f16(device, {130, 140, 96}, policy, 3);
}

// The log alone, on the smallest memory.
template <class Shape> void expect_fits(const Shape& shape) {
  static const Device device = all_devices()[5];
  AbsentTensors tensors;
  const auto op = shape.make(tensors);
  Machine machine(device, {.compute = false, .data = false});
  const Program made = program(machine, op, {});
  expect_no_reports(machine.run(made.body, made.launch).reports,
                    std::to_string(shape.m) + " rows of " + std::to_string(shape.k));
}

// Shapes of a random search that were refused: chunks, kept sums and an epilogue's tiles did not fit side by side.
TEST(LinearProgram, TilesFitASmallMemory) {
  constexpr DType f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  expect_fits(LinearShape{150, 176, 500, f16, f16, f32});
  expect_fits(LinearShape{290, 32, 901, f32, f16, f32});
  expect_fits(LinearShape{238, 32, 168, f32, bf16, f32});
  expect_fits(LinearShape{266, 39, 976, f16, f32, f32});
  expect_fits(LinearInt8Shape{137, 1024, 1077, f16, f32});
  expect_fits(LinearInt8Shape{237, 159, 740, f16, f32});
}

// Shapes of codes: what the epilogue of groups keeps grows with the groups of a product, and with a shift; a
// codebook's values take room beside it, and what upper bits are cut out with.
TEST(LinearProgram, TilesOfCodesFitASmallMemory) {
  struct Codes {
    Size size;
    index group;
  };
  for (const Codes& c : {Codes{{1, 4096, 4096}, 32},
                         {{3, 4096, 1000}, 40},
                         {{3, 4096, 4096}, 32},
                         {{7, 4096, 4096}, 32},
                         {{130, 96, 416}, 32},
                         {{512, 36, 40}, 40},
                         {{512, 36, 56}, 56}})
    for (const DType x : {DType::f16, DType::f32})
      for (const auto& [zeros, codebook, bits] : {std::tuple<bool, bool, index>{false, false, 4},
                                                  {true, false, 4},
                                                  {false, true, 4},
                                                  {false, false, 5},
                                                  {true, false, 6}}) {
        const LinearW4a16Shape shape{.m = c.size.m,
                                     .n = c.size.n,
                                     .k = c.size.k,
                                     .group = c.group,
                                     .type = x,
                                     .to = DType::f32,
                                     .bits = bits,
                                     .has_zeros = zeros,
                                     .has_codebook = codebook,
                                     .bias = DType::f32};
        expect_fits(shape);
      }
}

}  // namespace
}  // namespace inlay::npu
