// The share of the problem's roofline that the row-wise operators reach at shapes of models: the model is
// deterministic, a share that falls is a change of a program, a device or the model. A miss stays, with floor 0 and
// what stands in its way.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>

#include "tests/support/source_dir.hpp"

namespace inlay {
namespace {

// Memory for every operand: a price reads none of it.
std::byte* nowhere(std::size_t operand) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  static std::vector<std::unique_ptr<std::byte[]>> all(8);
  if (!all[operand]) all[operand].reset(new std::byte[bytes]);
  return all[operand].get();
}
template <std::size_t N> ConstView<static_cast<int>(N)> in(std::size_t operand, DType type, const index (&extents)[N]) {
  std::array<index, N> shape;
  std::copy(extents, extents + N, shape.begin());
  return {nowhere(operand), type, shape};
}
template <std::size_t N> View<static_cast<int>(N)> out(std::size_t operand, DType type, const index (&extents)[N]) {
  std::array<index, N> shape;
  std::copy(extents, extents + N, shape.begin());
  return {nowhere(operand), type, shape};
}

using Ask = std::function<Expected<NpuPrice>(const Npu&)>;
template <class Op> Ask ask(Op op) {
  return [op](const Npu& npu) { return price(npu, op); };
}

constexpr DType f16 = DType::f16;
Ask rms_norm(index rows, index columns, DType y = f16) {
  RmsNorm<Host> op{.x = in(0, f16, {rows, columns}), .weight = in(1, f16, {columns}), .y = out(2, y, {rows, columns})};
  if (y == DType::i8) op.y_scale = out(3, DType::f32, {rows});
  return ask(op);
}
Ask rms_norm_of_a_sum(index rows, index columns) {
  return ask(RmsNorm<Host>{.x = in(0, f16, {rows, columns}),
                           .weight = in(1, f16, {columns}),
                           .residual = out(3, f16, {rows, columns}),
                           .y = out(2, f16, {rows, columns})});
}
Ask qk_norm(index tokens, index heads, index dim) {
  return ask(RmsNorm<Host>{.x = in(0, f16, {tokens, heads * dim}),
                           .weight = in(1, f16, {dim}),
                           .y = out(2, f16, {tokens, heads * dim}),
                           .heads = heads});
}
Ask swiglu(index rows, index columns) {
  return ask(Swiglu<Host>{
      .gate = in(0, f16, {rows, columns}), .up = in(1, f16, {rows, columns}), .y = out(2, f16, {rows, columns})});
}
Ask rope(index tokens, index heads, index dim, bool interleaved = false) {
  return ask(Rope<Host>{.x = in(0, f16, {tokens, heads, dim}),
                        .cos = in(1, DType::f32, {tokens, dim / 2}),
                        .sin = in(2, DType::f32, {tokens, dim / 2}),
                        .y = out(3, f16, {tokens, heads, dim}),
                        .interleaved = interleaved});
}
Ask add(index rows, index columns) {
  return ask(
      Add<Host>{.a = in(0, f16, {rows, columns}), .b = in(1, f16, {rows, columns}), .y = out(2, f16, {rows, columns})});
}
Ask gelu(index rows, index columns, GeluForm form) {
  return ask(Gelu<Host>{.x = in(0, f16, {rows, columns}),
                        .up = in(1, f16, {rows, columns}),
                        .y = out(2, f16, {rows, columns}),
                        .form = form});
}
Ask softmax(index heads, index rows, index n) {
  return ask(Softmax<Host>{.x = in(0, f16, {heads, rows, n}), .y = out(1, f16, {heads, rows, n}), .scale = 0.5f});
}
Ask quantize(index rows, index columns) {
  return ask(Quantize<Host>{.x = in(0, f16, {rows, columns}),
                            .y = out(1, DType::i8, {rows, columns}),
                            .row_scale = out(2, DType::f32, {rows})});
}
Ask dequantize(index rows, index columns) {
  return ask(Dequantize<Host>{.x = in(0, DType::i8, {rows, columns}),
                              .scale = in(1, f16, {rows, columns / 128}),
                              .y = out(2, f16, {rows, columns}),
                              .column_group = 128});
}

struct Share {
  std::string_view op, shape;
  Ask ask;
  std::string_view device;
  double floor = 0;
  std::string_view why = "";
};

constexpr std::string_view ascend = "ascend-a2-like", hexagon = "hexagon-htp-like", small_array = "systolic32",
                           large_array = "systolic128";
constexpr std::string_view sigmoid = "the vector unit: exp and a division, four cycles each, for three elements moved";
constexpr std::string_view start =
    "the first loads and the last stores of each worker: 400 cycles each way, a row or two";
constexpr std::string_view short_rows =
    "the vector unit: rows of 128 or 64 elements leave most of its 1024 lanes empty";
constexpr std::string_view codes = "the vector unit: the largest, a probe for what is not finite, and a division";
constexpr std::string_view tail = "the vector unit: a polynomial of degree 8, which erf's accuracy at negative x takes";

const std::vector<Share>& shares() {
  static const std::vector<Share> table = {
      {"rms_norm", "512 x 4096", rms_norm(512, 4096), ascend, 0.90},
      {"rms_norm", "4096 x 4096", rms_norm(4096, 4096), ascend, 0.98},
      {"rms_norm", "512 x 4096", rms_norm(512, 4096), hexagon, 0.99},
      {"rms_norm", "4096 x 4096", rms_norm(4096, 4096), hexagon, 0.99},
      {"rms_norm", "512 x 4096", rms_norm(512, 4096), small_array, 0.99},
      {"rms_norm", "512 x 4096", rms_norm(512, 4096), large_array, 0, start},
      {"rms_norm", "4096 x 4096", rms_norm(4096, 4096), large_array, 0.98},
      {"rms_norm, residual", "512 x 4096", rms_norm_of_a_sum(512, 4096), ascend, 0.96},
      {"rms_norm, residual", "512 x 4096", rms_norm_of_a_sum(512, 4096), hexagon, 0.99},
      {"rms_norm, residual", "512 x 4096", rms_norm_of_a_sum(512, 4096), large_array, 0.95},
      {"rms_norm, heads", "4096 x 32 x 128", qk_norm(4096, 32, 128), ascend, 0.98},
      {"rms_norm, heads", "512 x 32 x 128", qk_norm(512, 32, 128), hexagon, 0.99},
      {"rms_norm, heads", "4096 x 32 x 128", qk_norm(4096, 32, 128), large_array, 0, short_rows},
      {"rms_norm, i8", "4096 x 4096", rms_norm(4096, 4096, DType::i8), ascend, 0, codes},
      {"rms_norm, i8", "4096 x 4096", rms_norm(4096, 4096, DType::i8), hexagon, 0, codes},
      {"swiglu", "512 x 14336", swiglu(512, 14336), ascend, 0.96},
      {"swiglu", "4096 x 14336", swiglu(4096, 14336), ascend, 0.99},
      {"swiglu", "512 x 14336", swiglu(512, 14336), hexagon, 0.98},
      {"swiglu", "512 x 14336", swiglu(512, 14336), small_array, 0, sigmoid},
      {"swiglu", "512 x 14336", swiglu(512, 14336), large_array, 0, sigmoid},
      {"rope", "512 x 32 x 128", rope(512, 32, 128), ascend, 0.85},
      {"rope", "4096 x 32 x 128", rope(4096, 32, 128), ascend, 0.97},
      {"rope", "512 x 32 x 128", rope(512, 32, 128), hexagon, 0.93},
      {"rope", "512 x 32 x 128", rope(512, 32, 128), small_array, 0.99},
      {"rope", "4096 x 32 x 128", rope(4096, 32, 128), large_array, 0, "a hair: runs of 128 bytes at half the path"},
      {"rope, interleaved", "4096 x 32 x 128", rope(4096, 32, 128, true), ascend, 0.96},
      {"rope, interleaved", "512 x 32 x 128", rope(512, 32, 128, true), hexagon, 0.99},
      {"rope, interleaved", "4096 x 32 x 128", rope(4096, 32, 128, true), large_array, 0, short_rows},
      {"add", "512 x 4096", add(512, 4096), ascend, 0.92},
      {"add", "512 x 4096", add(512, 4096), hexagon, 0.99},
      {"add", "512 x 4096", add(512, 4096), large_array, 0.92},
      {"gelu, tanh, up", "512 x 14336", gelu(512, 14336, GeluForm::tanh), ascend, 0.87},
      {"gelu, tanh, up", "512 x 14336", gelu(512, 14336, GeluForm::tanh), hexagon, 0.99},
      {"gelu, erf, up", "512 x 14336", gelu(512, 14336, GeluForm::erf), ascend, 0, tail},
      {"gelu, erf, up", "512 x 14336", gelu(512, 14336, GeluForm::erf), hexagon, 0, tail},
      {"softmax", "4 x 512 x 4096", softmax(4, 512, 4096), ascend, 0.93},
      {"softmax", "4 x 512 x 4096", softmax(4, 512, 4096), hexagon, 0.98},
      {"quantize, dynamic", "512 x 4096", quantize(512, 4096), ascend, 0, codes},
      {"quantize, dynamic", "512 x 4096", quantize(512, 4096), hexagon, 0.86},
      {"dequantize, groups", "512 x 4096", dequantize(512, 4096), ascend, 0.77},
      {"dequantize, groups", "512 x 4096", dequantize(512, 4096), hexagon, 0.99},
  };
  return table;
}

// As docs/npu.md has it.
std::string row_of(const Share& share, const NpuPrice& price) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, " | %.0f | %.1f%% | ", price.cycles, 100 * price.problem_share);
  return "| " + std::string(share.op) + " | " + std::string(share.shape) + " | " + std::string(share.device) + numbers +
         price.bound + " | " + std::string(share.why) + " |";
}

TEST(SharesOfRows, AreHeld) {
  std::ifstream stream(inlay::test::source_path("docs/npu.md"));
  const std::string page{std::istreambuf_iterator<char>(stream), {}};
  for (const Share& share : shares()) {
    const auto npu = Npu::make({.device = std::string(share.device)});
    ASSERT_TRUE(npu);
    const auto found = share.ask(*npu);
    ASSERT_TRUE(found) << share.op << " " << share.shape << " on " << share.device << ": " << found.error().message();
    const std::string row = row_of(share, *found);
    EXPECT_GE(found->problem_share, share.floor) << row;
    EXPECT_LE(found->problem_share, 1) << row;
    EXPECT_TRUE(share.floor > 0 || !share.why.empty()) << row;
    EXPECT_NE(page.find(row), page.npos) << "docs/npu.md does not have " << row;
  }
}

// Of the operators that issue 12 names, at least 85 % on two descriptions or more.
TEST(SharesOfRows, ReachTheTargetOnTwoDevices) {
  for (std::string_view op : {"rms_norm", "swiglu", "rope"}) {
    std::set<std::string_view> devices;
    for (const Share& share : shares())
      if (share.op == op && share.floor >= 0.85) devices.insert(share.device);
    EXPECT_GE(devices.size(), 2u) << op;
  }
}

}  // namespace
}  // namespace inlay
