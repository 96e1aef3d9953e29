// The share of the problem's roofline that the row-wise operators reach at shapes of models: the model is
// deterministic, a share that falls is a change of a program, a device or the model. A miss stays, with floor 0 and
// what stands in its way.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>

#include "shapes/add.hpp"
#include "shapes/dequantize.hpp"
#include "shapes/gelu.hpp"
#include "shapes/quantize.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/softmax.hpp"
#include "shapes/swiglu.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay {
namespace {

using Ask = std::function<Expected<NpuEstimate>(const Npu&)>;
template <class Shape> Ask ask(const Shape& shape) {
  return [shape](const Npu& npu) {
    AbsentTensors tensors;
    return estimate(npu, shape.make(tensors));
  };
}

constexpr DType f16 = DType::f16;
Ask rms_norm(index rows, index dim, DType to = f16) {
  return ask(RmsNormShape{.rows = rows, .dim = dim, .to = to, .weight = f16});
}
Ask rms_norm_of_a_sum(index rows, index dim) {
  return ask(RmsNormShape{.rows = rows, .dim = dim, .weight = f16, .has_residual = true});
}
Ask qk_norm(index tokens, index heads, index dim) {
  return ask(RmsNormShape{.rows = tokens, .dim = dim, .weight = f16, .heads = heads});
}
Ask swiglu(index rows, index dim) { return ask(SwigluShape{rows, dim}); }
Ask rope(index tokens, index heads, index dim, bool interleaved = false) {
  return ask(RopeShape{tokens, heads, dim, f16, interleaved});
}
Ask add(index rows, index dim) { return ask(AddShape{rows, dim}); }
Ask gelu(index rows, index dim, GeluForm form) {
  return ask(GeluShape{.rows = rows, .dim = dim, .form = form, .has_up = true});
}
Ask softmax(index heads, index rows, index n) { return ask(SoftmaxShape{heads, rows, n, f16, 0.5f}); }
Ask quantize(index rows, index dim) { return ask(QuantizeShape{rows, dim}); }
Ask dequantize(index rows, index dim) {
  return ask(DequantizeShape{.rows = rows, .dim = dim, .scale = f16, .scale_columns = dim / 128, .column_group = 128});
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
std::string row_of(const Share& share, const NpuEstimate& estimate) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, " | %.0f | %.1f%% | ", estimate.cycles, 100 * estimate.problem_share);
  return "| " + std::string(share.op) + " | " + std::string(share.shape) + " | " + std::string(share.device) + numbers +
         estimate.bound + " | " + std::string(share.why) + " |";
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
