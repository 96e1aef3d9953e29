// The linear layers at sizes that take several tiles of small memories: every way through their programs.
#pragma once

#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_pack.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

#include "tests/machine/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearInt8<Host>&, const Choices&);
Program program(GlobalMemory&, const LinearW4a16<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

// Halves of both sides, or what is f16 as it lies.
template <class T> Ran run_linear(const Device& device, const Options& options) {
  constexpr index m = 19, n = 36, k = 70;
  const auto x = values<T>(m * k, -4, 4, 1), w = values<T>(n * k, -4, 4, 2);
  const auto extents = linear_packed_extents(n, k, dtype_of<T>);
  std::vector<T> packed(static_cast<std::size_t>(extents[0] * extents[1] * extents[2])), y(m * n);
  EXPECT_TRUE(pack_linear(serial(), {w.data(), {n, k}}, {packed.data(), extents}).ok());
  const Linear<Host> op{.x = {x.data(), {m, k}}, .weight = {packed.data(), extents}, .y = {y.data(), {m, n}}};
  return run_operator(device, options, op, y);
}

// Quantized inside; with a static scale and shadow outliers.
template <bool shadow> Ran run_linear_int8(const Device& device, const Options& options) {
  constexpr index m = 18, n = 20, k = 70;
  auto x = values<float>(m * k, shadow ? -400 : -40, shadow ? 400 : 40, 1);
  if (shadow)
    for (std::size_t i = 5; i < x.size(); i += 11) x[i] = 16777216.0f;  // its quotient is no float below 2^23
  const auto scale = values<float>(n, 1, 3, 2), x_scale = values<float>(1, 1, 1, 3);
  const auto w = values<std::int8_t>(n * k, -9, 9, 4), zero = values<std::int8_t>(n, -3, 3, 5);
  const auto extents = linear_int8::packed_extents(n, k);
  std::vector<std::int8_t> packed(static_cast<std::size_t>(extents[0] * extents[1] * extents[2]));
  std::vector<std::int32_t> sums(n);
  std::vector<float> y(m * n);
  EXPECT_TRUE(pack_linear_int8({w.data(), {n, k}}, {packed.data(), extents}, {sums.data(), {n}}).ok());
  LinearInt8<Host> op{.x = {x.data(), {m, k}},
                      .weight = {packed.data(), extents},
                      .weight_sum = {sums.data(), {n}},
                      .weight_scale = {scale.data(), {n}},
                      .weight_zero = {zero.data(), {n}},
                      .y = {y.data(), {m, n}}};
  if (shadow) op.x_scale = {x_scale.data(), {1}}, op.shadow_outliers = true;
  return run_operator(device, options, op, y);
}

template <W4Compute compute> Ran run_linear_w4a16(const Device& device, const Options& options) {
  constexpr index m = 5, n = 36, k = 72, group = 40;
  const auto x = values<float>(m * k, -4, 4, 1), w = values<float>(n * k, -4, 4, 2);
  const PackedW4 packed = quantize_w4a16({w.data(), {n, k}}, group, 4, false);
  std::vector<float> y(m * n);
  const LinearW4a16<Host> op = packed.op({x.data(), {m, k}}, {y.data(), {m, n}}, {}, compute);
  return run_operator(device, options, op, y);
}

inline std::vector<Problem> small_linear() {
  return {{"linear f32", run_linear<float>},
          {"linear f16", run_linear<f16>},
          {"linear_int8", run_linear_int8<false>},
          {"linear_int8, shadow outliers", run_linear_int8<true>},
          {"linear_w4a16", run_linear_w4a16<W4Compute::exact_float>},
          {"linear_w4a16, int8_activations", run_linear_w4a16<W4Compute::int8_activations>}};
}

}  // namespace inlay::npu::test
