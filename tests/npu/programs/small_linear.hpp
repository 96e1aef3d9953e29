// The linear layers at sizes that take several tiles of small memories: every way through their programs.
#pragma once

#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

#include "shapes/linear.hpp"
#include "shapes/linear_w4a16.hpp"
#include "tests/npu/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearInt8<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearW4a16<Host>&, const Choices&);
Packing packing(GlobalMemory&, const Linear<Host>&, const Choices&);
Packing packing(GlobalMemory&, const LinearInt8<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

// The vector unit holds rows in f32.
inline std::vector<Device> devices_for_linear() {
  std::vector<Device> list = small_devices();
  for (Device& device : list) {
    auto& vector = device.memories[device.memory_of[static_cast<std::size_t>(Space::vector)]].bytes;
    vector = std::max<std::uint64_t>(vector, device.same_memory(Space::vector, Space::staging) ? 160 << 10 : 48 << 10);
  }
  return list;
}

// Does the call lay its weight out, read the blocks of one that was packed, or pack it?
enum class Weight { unpacked, packed, packing };

// The program that lays the blocks out, or the one that reads them.
template <class Op> Ran run_packed(const Device& device, const Options& options, const Op& op, Weight weight) {
  PlanningMemory planning(device);
  const Packing how = packing(planning, op, {});
  if (how.bytes == 0 || weight == Weight::unpacked) return run_operator(device, options, op);
  std::vector<std::byte> memory(how.bytes);
  if (weight == Weight::packing) {
    Machine machine(device, options);
    const Program made = how.lay_out(machine, memory.data());
    Outcome outcome = machine.run(made.body, made.launch);
    return {std::move(outcome), memory};
  }
  FunctionalMachine before(device);
  const Program made = how.lay_out(before, memory.data());
  EXPECT_TRUE(before.run(made.body, made.launch).empty());
  Machine machine(device, options);
  const Program reads = program(machine, op, {.packed = memory.data()});
  Outcome outcome = machine.run(reads.body, reads.launch);
  return {std::move(outcome), written_by(op)};
}

// Halves of both sides, or what is f16 as it lies.
template <class T, index k = 70, index n = 36, Weight weight = Weight::unpacked>
Ran run_linear(const Device& device, const Options& options) {
  constexpr DType type = dtype_of<T>;
  RandomTensors tensors;
  const LinearShape shape{.m = 19, .n = n, .k = k, .type = type, .weight = type, .bias = type};
  return run_packed(device, options, shape.make(tensors), weight);
}

// Weights of a layer of bytes.
struct Int8Weights {
  static constexpr index n = 20, k = 70;
  std::array<index, 3> extents = linear_int8::packed_extents(n, k);
  std::vector<float> scale = values<float>(n, 1, 3, 2), bias = values<float>(n, -9, 9, 6);
  std::vector<std::int8_t> zero = values<std::int8_t>(n, -3, 3, 5), packed;
  std::vector<std::int32_t> sums = std::vector<std::int32_t>(n);

  Int8Weights() : packed(static_cast<std::size_t>(extents[0] * extents[1] * extents[2])) {
    const auto w = values<std::int8_t>(n * k, -9, 9, 4);
    EXPECT_TRUE(pack_linear_int8({w.data(), {n, k}}, {packed.data(), extents}, {sums.data(), {n}}).ok());
  }
  LinearInt8<Host> op(ConstView<2> x, View<2> y) const {
    return {.x = x,
            .weight = {packed.data(), extents},
            .weight_sum = {sums.data(), {n}},
            .weight_scale = {scale.data(), {n}},
            .weight_zero = {zero.data(), {n}},
            .bias = {bias.data(), {n}},
            .y = y};
  }
};

enum class Codes { symmetric, asymmetric, static_scale, shadow_outliers };

// Quantized inside.
template <Codes codes, Weight weight = Weight::unpacked>
Ran run_linear_int8(const Device& device, const Options& options) {
  constexpr index m = 34, n = Int8Weights::n, k = Int8Weights::k;
  constexpr bool shadow = codes == Codes::shadow_outliers;
  auto x = values<float>(m * k, shadow ? -400 : -60, shadow ? 400 : 40, 1);
  if (shadow)
    for (std::size_t i = 5; i < x.size(); i += 11) x[i] = 16777216.0f;  // its quotient is no float below 2^23
  // A row's span beyond f32: of two scales it has the other one.
  if (codes == Codes::asymmetric) x[k + 3] = 3e38f, x[k + 7] = -3e38f;
  const Int8Weights weights;
  const auto scale = values<float>(1, 1, 1, 3);
  const auto zero = values<std::int8_t>(1, 3, 3, 7);
  std::vector<float> y(m * n);
  LinearInt8<Host> op = weights.op({x.data(), {m, k}}, {y.data(), {m, n}});
  op.asymmetric = codes == Codes::asymmetric;
  op.shadow_outliers = shadow;
  if (codes == Codes::static_scale || shadow) op.x_scale = {scale.data(), {1}};
  if (codes == Codes::static_scale) op.x_zero = {zero.data(), {1}};
  return run_packed(device, options, op, weight);
}

// Codes in, codes out.
template <class T> Ran run_linear_of_codes(const Device& device, const Options& options) {
  constexpr index m = 18, n = Int8Weights::n, k = Int8Weights::k;
  const auto x = values<T>(m * k, 0, 60, 1), zero = values<T>(1, 3, 3, 7);
  const auto scale = values<float>(1, 1, 1, 3), y_scale = values<float>(1, 60, 60, 8);
  const Int8Weights weights;
  std::vector<T> y(m * n);
  LinearInt8<Host> op = weights.op({x.data(), {m, k}}, {y.data(), {m, n}});
  op.x_scale = {scale.data(), {1}};
  op.x_zero = {zero.data(), {1}};
  op.y_scale = {y_scale.data(), {1}};
  op.y_zero = {zero.data(), {1}};
  return run_operator(device, options, op);
}

struct FourBits {
  index group = 40;
  bool symmetric = false;  // else with zeros
  W4Compute compute = W4Compute::exact_float;
  NpuActivations activations = NpuActivations::exact;
  bool ordered = false;  // by a permutation
  index bits = 4;
  index m = 5, n = 36, k = 72;
  bool codebook = false;  // of symmetric codes
};

inline Ran run_linear_w4a16(const Device& device, const Options& options, const FourBits& form) {
  const index n = form.n, k = form.k;
  const auto x = values<float>(static_cast<std::size_t>(form.m * k), -4, 4, 1),
             w = values<float>(static_cast<std::size_t>(n * k), -4, 4, 2);
  const auto bias = values<float>(static_cast<std::size_t>(n), -4, 4, 3);
  PackedW4 packed = *quantize_w4a16({w.data(), {n, k}}, form.group, form.bits, form.symmetric);
  if (form.ordered)
    for (index slot = 0; slot < k; ++slot) packed.perm.push_back(static_cast<std::int32_t>(slot * 7 % k));
  std::vector<float> y(static_cast<std::size_t>(form.m * n));
  const auto codebook = values<std::int8_t>(w4_codebook, -128, 127, 4);
  LinearW4a16<Host> op = packed.op({x.data(), {form.m, k}}, {y.data(), {form.m, n}}, {bias.data(), {n}}, form.compute);
  if (form.codebook) op.codebook = {codebook.data(), {w4_codebook}};
  return run_operator(device, options, op, {.activations = form.activations});
}

// Scales and offsets in units of super-blocks, more than one of them.
inline LinearW4a16Shape in_units(index k, W4Compute compute = W4Compute::exact_float) {
  return {.m = 3,
          .n = 20,
          .k = k,
          .group = 32,
          .type = DType::f32,
          .has_zeros = false,
          .has_offsets = true,
          .in_units = true,
          .compute = compute};
}

// A problem on devices that are changed for it.
inline Problem on(void (*change)(Device&), Problem problem) {
  problem.run = [change, run = std::move(problem.run)](Device device, const Options& options) {
    change(device);
    return run(device, options);
  };
  return problem;
}
// Cores have as little of the bandwidth as each of many: the weight comes before the cores meet.
inline void slow_memory(Device& device) { device.dram_bytes_per_cycle /= 24; }
// Tiles hold several super-blocks.
inline void large_vector_memory(Device& device) {
  device.memories[device.memory_of[static_cast<std::size_t>(Space::vector)]].bytes *= 4;
}

inline std::vector<Problem> small_linear() {
  constexpr auto in_bytes = W4Compute::int8_activations;
  constexpr auto in_f16 = NpuActivations::f16;
  const auto w4 = [](FourBits form) {
    return [form](const Device& device, const Options& options) { return run_linear_w4a16(device, options, form); };
  };
  return {{"linear f32", run_linear<float>},
          {"linear f16", run_linear<f16>},
          {"linear f16, columns beyond a tile", run_linear<f16, 32, 100>},
          // The load makes blocks of the rows, or the vector unit where that is another unit's pass and global memory
          // bounds the layer.
          problem("linear f16, rows", LinearShape{.m = 3, .n = 36, .k = 70, .in_rows = true}),
          {"linear, nothing to add up", run_linear<float, 0>, true},
          {"linear_int8", run_linear_int8<Codes::symmetric>},
          {"linear_int8, asymmetric", run_linear_int8<Codes::asymmetric>},
          {"linear_int8, static scale", run_linear_int8<Codes::static_scale>},
          {"linear_int8, shadow outliers", run_linear_int8<Codes::shadow_outliers>},
          {"linear f32, packing", run_linear<float, 70, 36, Weight::packing>},
          {"linear f32, packed", run_linear<float, 70, 36, Weight::packed>},
          {"linear_int8, packed", run_linear_int8<Codes::symmetric, Weight::packed>},
          on(slow_memory, {"linear f32, packed, slow memory", run_linear<float, 70, 36, Weight::packed>}),
          on(slow_memory, {"linear_int8, packed, slow memory", run_linear_int8<Codes::symmetric, Weight::packed>}),
          {"linear_int8, i8 to i8", run_linear_of_codes<std::int8_t>},
          {"linear_int8, u8 to u8", run_linear_of_codes<std::uint8_t>},
          {"linear_w4a16", w4({})},
          {"linear_w4a16, symmetric", w4({.symmetric = true})},
          {"linear_w4a16, 8 bits, by order", w4({.ordered = true, .bits = 8})},
          {"linear_w4a16, activations f16", w4({.activations = in_f16})},
          {"linear_w4a16, activations f16, one group", w4({.group = 0, .symmetric = true, .activations = in_f16})},
          {"linear_w4a16, activations f16, 40 rows", w4({.activations = in_f16, .m = 40})},
          {"linear_w4a16, activations f16, rows that stay",
           w4({.group = 0, .symmetric = true, .activations = in_f16, .m = 33, .n = 100, .k = 416})},
          {"linear_w4a16, activations f16, groups across granules",
           w4({.group = 24, .symmetric = true, .activations = in_f16})},
          {"linear_w4a16, many groups", w4({.group = 32, .m = 1, .n = 16, .k = 256})},
          {"linear_w4a16, many groups of 40 rows", w4({.group = 32, .m = 40, .n = 16, .k = 256})},
          {"linear_w4a16, activations f16, 40 rows of 512",
           w4({.group = 32, .activations = in_f16, .m = 40, .n = 16, .k = 512})},
          {"linear_w4a16, codebook", w4({.symmetric = true, .codebook = true})},
          {"linear_w4a16, codebook, activations f16",
           w4({.symmetric = true, .activations = in_f16, .m = 40, .codebook = true})},
          {"linear_w4a16, codebook, int8_activations, many groups",
           w4({.group = 32, .symmetric = true, .compute = in_bytes, .m = 1, .n = 16, .k = 256, .codebook = true})},
          {"linear_w4a16, int8_activations", w4({.compute = in_bytes})},
          {"linear_w4a16, int8_activations, one group", w4({.group = 0, .compute = in_bytes, .m = 3, .k = 264})},
          {"linear_w4a16, int8_activations, many groups",
           w4({.group = 32, .compute = in_bytes, .m = 1, .n = 16, .k = 256})},
          {"linear_w4a16, int8_activations, 8 bits", w4({.compute = in_bytes, .bits = 8, .m = 40}), true},
          {"linear_w4a16, 5 bits", w4({.bits = 5})},
          {"linear_w4a16, 6 bits, symmetric", w4({.symmetric = true, .bits = 6})},
          {"linear_w4a16, 6 bits, int8_activations", w4({.compute = in_bytes, .bits = 6})},
          {"linear_w4a16, 5 bits, activations f16", w4({.activations = in_f16, .bits = 5})},
          {"linear_w4a16, 6 bits, symmetric, activations f16",
           w4({.symmetric = true, .activations = in_f16, .bits = 6, .m = 40})},
          problem("linear_w4a16, in units", in_units(288)),
          problem("linear_w4a16, in units, int8_activations", in_units(288, in_bytes)),
          problem("linear_w4a16, in units, activations f16", in_units(288), {.activations = in_f16}),
          on(large_vector_memory,
             problem("linear_w4a16, in units, activations f16, room", in_units(544), {.activations = in_f16}))};
}

}  // namespace inlay::npu::test
