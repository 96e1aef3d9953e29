// Products of f16 come bit for bit in the order of the device, whatever the tiles, and near to f64; tiles of awkward
// shapes fit the smallest memory.
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include <cmath>

#include "npu_kernels/backend/program.hpp"
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

// Nothing behind its tensors: the tape alone.
class OnSystolic32 {
 public:
  template <int N> View<N> at(DType dtype, std::array<index, N> extents) {
    return View<N>(reinterpret_cast<void*>(next_ += std::uintptr_t{1} << 36), dtype, extents);
  }
  template <class Op> void expect_fits(const Op& op) {
    Machine machine(device_, {.compute = false, .data = false});
    const Program made = program(machine, op, {});
    expect_no_reports(machine.run(made.body, made.launch).reports,
                      std::to_string(op.x.extents[0]) + " rows of " + std::to_string(op.x.extents[1]));
  }

 private:
  Device device_ = all_devices()[5];
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

// Shapes of a random search that were refused: chunks, kept sums and an epilogue's tiles did not fit side by side.
TEST(LinearProgram, TilesFitASmallMemory) {
  OnSystolic32 machine;
  const auto linear = [&](DType x, DType w, Size size) {
    machine.expect_fits(Linear<Host>{.x = machine.at<2>(x, {size.m, size.k}),
                                     .weight = machine.at<3>(w, linear_packed_extents(size.n, size.k, w)),
                                     .y = machine.at<2>(DType::f32, {size.m, size.n})});
  };
  linear(DType::f16, DType::f16, {150, 176, 500});
  linear(DType::f32, DType::f16, {290, 32, 901});
  linear(DType::f32, DType::bf16, {238, 32, 168});
  linear(DType::f16, DType::f32, {266, 39, 976});
  for (const Size size : {Size{137, 1024, 1077}, {237, 159, 740}})
    machine.expect_fits(
        LinearInt8<Host>{.x = machine.at<2>(DType::f16, {size.m, size.k}),
                         .weight = machine.at<3>(DType::i8, linear_int8::packed_extents(size.n, size.k)),
                         .weight_sum = machine.at<1>(DType::i32, {size.n}),
                         .weight_scale = machine.at<1>(DType::f32, {size.n}),
                         .y = machine.at<2>(DType::f32, {size.m, size.n})});
}

// Shapes of four bits: what the epilogue of groups keeps grows with the groups of a product, and with a shift.
TEST(LinearProgram, TilesOfFourBitsFitASmallMemory) {
  OnSystolic32 machine;
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
      for (const bool zeros : {false, true}) {
        const std::array<index, 3> per_group{w4_panels(c.size.n), w4_groups(c.size.k, c.group), w4_panel};
        LinearW4a16<Host> op{.x = machine.at<2>(x, {c.size.m, c.size.k}),
                             .codes = machine.at<3>(DType::u8, {w4_panels(c.size.n), w4_steps(c.size.k, 4), 64}),
                             .scales = machine.at<3>(DType::f16, per_group),
                             .bias = machine.at<1>(DType::f32, {c.size.n}),
                             .y = machine.at<2>(DType::f32, {c.size.m, c.size.n}),
                             .group = c.group};
        if (zeros) op.zeros = machine.at<3>(DType::u8, per_group);
        machine.expect_fits(op);
      }
}

}  // namespace
}  // namespace inlay::npu
