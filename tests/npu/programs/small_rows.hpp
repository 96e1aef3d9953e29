// The row-wise operators at sizes that take many tiles of small memories, long rows in pieces among them.
#pragma once

#include <inlay/ops/add.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>

#include "tests/npu/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Add<Host>&, const Choices&);
Program program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);
Program program(GlobalMemory&, const Swiglu<Host>&, const Choices&);
Program program(GlobalMemory&, const Gelu<Host>&, const Choices&);
Program program(GlobalMemory&, const Softmax<Host>&, const Choices&);
Program program(GlobalMemory&, const Quantize<Host>&, const Choices&);
Program program(GlobalMemory&, const Dequantize<Host>&, const Choices&);
Program program(GlobalMemory&, const Embedding<Host>&, const Choices&);
Program program(GlobalMemory&, const Rope<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

inline Ran run_add(const Device& device, const Options& options) {
  constexpr index rows = 9, columns = 1500;
  const auto a = values<f16>(rows * columns, -4, 4, 1), b = values<f16>(columns, -4, 4, 2);
  std::vector<f16> y(a.size());
  const Add<Host> op{.a = {a.data(), {rows, columns}}, .b = {b.data(), {1, columns}}, .y = {y.data(), {rows, columns}}};
  return run_operator(device, options, op, y);
}

inline Ran run_swiglu(const Device& device, const Options& options) {
  constexpr index rows = 5, columns = 1500;
  const auto gate = values<f16>(rows * columns, -4, 4, 1), up = values<f16>(rows * columns, -4, 4, 2);
  std::vector<f16> y(gate.size());
  const Swiglu<Host> op{.gate = {gate.data(), {rows, columns}},
                        .up = {up.data(), {rows, columns}},
                        .y = {y.data(), {rows, columns}},
                        .limit = 3};
  return run_operator(device, options, op, y);
}

template <GeluForm form> Ran run_gelu(const Device& device, const Options& options) {
  constexpr index rows = 5, columns = 1200;
  const auto x = values<f16>(rows * columns, -4, 4, 1), up = values<f16>(rows * columns, -4, 4, 2);
  std::vector<f16> y(x.size());
  const Gelu<Host> op{.x = {x.data(), {rows, columns}},
                      .up = {up.data(), {rows, columns}},
                      .y = {y.data(), {rows, columns}},
                      .form = form};
  return run_operator(device, options, op, y);
}

// Three sweeps over pieces of a row, a residual that is replaced.
inline Ran run_long_rms_norm(const Device& device, const Options& options) {
  constexpr index rows = 3, columns = 2500;
  const auto x = values<f16>(rows * columns, -4, 4, 3);
  const auto weight = values<float>(columns, 1, 4, 4);
  auto residual = values<f16>(rows * columns, -4, 4, 5);
  std::vector<std::int8_t> y(rows * columns);
  std::vector<float> scale(rows);
  const RmsNorm<Host> op{.x = {x.data(), {rows, columns}},
                         .weight = {weight.data(), {columns}},
                         .residual = {residual.data(), {rows, columns}},
                         .y = {y.data(), {rows, columns}},
                         .y_scale = {scale.data(), {rows}}};
  Ran ran = run_operator(device, options, op, y);
  for (const auto& more : {bytes_of(residual), bytes_of(scale)})
    ran.output.insert(ran.output.end(), more.begin(), more.end());
  return ran;
}

template <index columns> Ran run_softmax(const Device& device, const Options& options) {
  constexpr index rows = 5;
  const auto x = values<f16>(2 * rows * columns, -4, 4, 1);
  const auto mask = values<float>(rows * columns, -1, 1, 2), sink = values<float>(2, -1, 1, 3);
  std::vector<f16> y(x.size());
  const Softmax<Host> op{.x = {x.data(), {2, rows, columns}},
                         .mask = {mask.data(), {1, rows, columns}},
                         .sink = {sink.data(), {2}},
                         .y = {y.data(), {2, rows, columns}},
                         .scale = 0.5f};
  return run_operator(device, options, op, y);
}

// Its logarithm, under a mask of bits, without sinks.
inline Ran run_log_softmax(const Device& device, const Options& options) {
  constexpr index rows = 5, columns = 200;
  const auto x = values<f16>(rows * columns, -4, 4, 1);
  auto mask = values<std::uint8_t>(rows * columns, 0, 1, 2);
  std::vector<f16> y(x.size());
  const Softmax<Host> op{.x = {x.data(), {1, rows, columns}},
                         .mask = {mask.data(), DType::boolean, {1, rows, columns}},
                         .y = {y.data(), {1, rows, columns}},
                         .log = true};
  return run_operator(device, options, op, y);
}

// Short rows; weights of x's type, or in f32 with 1 to be added.
template <class T> Ran run_rms_norm(const Device& device, const Options& options) {
  constexpr index rows = 29, columns = 768;
  const auto x = values<f16>(rows * columns, -4, 4, 3);
  const auto weight = values<T>(columns, 1, 4, 4);
  std::vector<f16> y(rows * columns);
  const RmsNorm<Host> op{.x = {x.data(), {rows, columns}},
                         .weight = {weight.data(), {columns}},
                         .y = {y.data(), {rows, columns}},
                         .weight_offset = std::is_same_v<T, float> ? 1.0f : 0.0f};
  return run_operator(device, options, op, y);
}

template <bool zeros> Ran run_quantize(const Device& device, const Options& options) {
  constexpr index rows = 3, columns = 2500;
  auto x = values<f16>(rows * columns, -40, 40, 1);
  x[7] = f16(80), x[columns + 9] = f16(-80);  // either end is the largest of a row
  std::vector<std::int8_t> y(x.size()), zero(rows);
  std::vector<float> scale(rows);
  Quantize<Host> op{
      .x = {x.data(), {rows, columns}}, .y = {y.data(), {rows, columns}}, .row_scale = {scale.data(), {rows}}};
  if (zeros) op.row_zero = {zero.data(), {rows}};
  Ran ran = run_operator(device, options, op, y);
  for (const auto& more : {bytes_of(zero), bytes_of(scale)})
    ran.output.insert(ran.output.end(), more.begin(), more.end());
  return ran;
}

// Codes of half a byte whose rows share bytes.
inline Ran run_quantize_4(const Device& device, const Options& options) {
  constexpr index rows = 4, columns = 33;
  const auto x = values<float>(rows * columns, -7, 7, 1), scale = values<float>(1, 1, 1, 2);
  std::vector<std::uint8_t> y((rows * columns + 1) / 2);
  const Quantize<Host> op{.x = {x.data(), {rows, columns}},
                          .scale = {scale.data(), {1, 1}},
                          .y = {y.data(), DType::i4, {rows, columns}, {columns, 1}}};
  return run_operator(device, options, op, y);
}

inline Ran run_dequantize_4(const Device& device, const Options& options) {
  constexpr index rows = 4, columns = 33;
  const auto x = values<std::uint8_t>((rows * columns + 1) / 2, 0, 255, 1);
  const auto scale = values<float>(1, 2, 2, 2);
  std::vector<float> y(rows * columns);
  const Dequantize<Host> op{.x = {x.data(), DType::i4, {rows, columns}, {columns, 1}},
                            .scale = {scale.data(), {1, 1}},
                            .y = {y.data(), {rows, columns}}};
  return run_operator(device, options, op, y);
}

inline Ran run_dequantize(const Device& device, const Options& options) {
  constexpr index rows = 5, columns = 1536, groups = columns / 128;
  const auto x = values<std::int8_t>(rows * columns, -40, 40, 1), zero = values<std::int8_t>(rows * groups, -3, 3, 2);
  const auto scale = values<f16>(rows * groups, 1, 4, 3);
  std::vector<f16> y(x.size());
  const Dequantize<Host> op{.x = {x.data(), {rows, columns}},
                            .scale = {scale.data(), {rows, groups}},
                            .zero = {zero.data(), {rows, groups}},
                            .y = {y.data(), {rows, columns}},
                            .column_group = 128};
  return run_operator(device, options, op, y);
}

inline Ran run_embedding(const Device& device, const Options& options) {
  constexpr index vocab = 11, dim = 700, tokens = 9;
  const auto table = values<std::int8_t>(vocab * dim, -40, 40, 1);
  const auto row_scale = values<float>(vocab, 1, 4, 2);
  const std::vector<std::int32_t> ids{3, 0, 10, 3, 7, 7, 1, 9, 2};
  std::vector<f16> y(tokens * dim);
  const Embedding<Host> op{.table = {table.data(), {vocab, dim}},
                           .row_scale = {row_scale.data(), {vocab}},
                           .ids = {ids.data(), {tokens}},
                           .y = {y.data(), {tokens, dim}}};
  return run_operator(device, options, op, y);
}

template <GgmlType format> Ran run_blocks(const Device& device, const Options& options) {
  constexpr index vocab = 5, dim = 1024, tokens = 3, bytes = ggml_row_bytes(format, dim);
  auto table = values<std::uint8_t>(vocab * bytes, 0, 0x3f, 1);  // scales are finite
  const std::vector<std::int32_t> ids{3, 0, 4};
  std::vector<f16> y(tokens * dim);
  const Embedding<Host> op{.table = {table.data(), {vocab, bytes}},
                           .ids = {ids.data(), {tokens}},
                           .y = {y.data(), {tokens, dim}},
                           .format = format};
  return run_operator(device, options, op, y);
}

// Token t by row t, or by the row that its position names.
template <bool interleaved, bool at_positions = true> Ran run_rope(const Device& device, const Options& options) {
  constexpr index tokens = 5, heads = 6, dim = 80, pairs = 32, cached = 7;
  const auto x = values<f16>(tokens * heads * dim, -4, 4, 1);
  const auto cos = values<float>(cached * pairs, -1, 1, 2), sin = values<float>(cached * pairs, -1, 1, 3);
  const std::vector<std::int32_t> positions{6, 0, 3, 3, 1};
  std::vector<f16> y(x.size());
  constexpr index table = at_positions ? cached : tokens;
  Rope<Host> op{.x = {x.data(), {tokens, heads, dim}},
                .cos = {cos.data(), {table, pairs}},
                .sin = {sin.data(), {table, pairs}},
                .y = {y.data(), {tokens, heads, dim}},
                .first = 8,
                .interleaved = interleaved};
  if (at_positions) op.positions = {positions.data(), {tokens}};
  return run_operator(device, options, op, y);
}

inline std::vector<Problem> small_rows() {
  return {{"add of a bias", run_add},
          {"swiglu", run_swiglu},
          {"gelu", run_gelu<GeluForm::erf>},
          {"gelu, tanh", run_gelu<GeluForm::tanh>},
          {"gelu, quick", run_gelu<GeluForm::quick>},
          {"rms_norm", run_rms_norm<f16>},
          {"rms_norm, f32 weights", run_rms_norm<float>},
          {"rms_norm of long rows", run_long_rms_norm},
          {"softmax", run_softmax<200>},
          {"softmax of long rows", run_softmax<2000>},
          {"softmax, its logarithm", run_log_softmax},
          {"quantize of long rows", run_quantize<true>},
          {"quantize of long rows, without zeros", run_quantize<false>},
          {"quantize to half bytes", run_quantize_4},
          {"dequantize", run_dequantize},
          {"dequantize half bytes", run_dequantize_4},
          {"embedding", run_embedding},
          {"embedding Q8_0", run_blocks<GgmlType::Q8_0>},
          {"embedding Q4_0", run_blocks<GgmlType::Q4_0>},
          {"embedding Q4_1", run_blocks<GgmlType::Q4_1>},
          {"embedding Q4_K", run_blocks<GgmlType::Q4_K>},
          {"embedding Q6_K", run_blocks<GgmlType::Q6_K>},
          {"rope", run_rope<false>},
          {"rope, row by row", run_rope<false, false>},
          {"rope interleaved", run_rope<true>}};
}

}  // namespace inlay::npu::test
