// Linear layers of three models by the number of rows: more rows never cost much less, and none falls far below the
// roofline. By shapes alone; INLAY_SWEEP=whole takes every layer and every number of rows, among them the misses: 256
// rows of small layers on ascend-a2-like cost up to 1.18 times what 512 do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>

#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"

namespace inlay::test {
namespace {

struct Layer {
  const char* name;
  index n, k;
  bool always = true;  // else of the whole sweep
};
constexpr Layer layers[] = {{"Llama 1B q, o", 2048, 2048},
                            {"Llama 1B k, v", 512, 2048},
                            {"Llama 1B q, k, v", 3072, 2048, false},
                            {"Llama 1B gate, up", 16384, 2048, false},
                            {"Llama 1B down", 2048, 8192},
                            {"Llama 8B q, o", 4096, 4096},
                            {"Llama 8B k, v", 1024, 4096},
                            {"Llama 8B q, k, v", 6144, 4096, false},
                            {"Llama 8B gate", 14336, 4096, false},
                            {"Llama 8B gate, up", 28672, 4096, false},
                            {"Llama 8B down", 4096, 14336},
                            {"Qwen 0.5B q, o", 896, 896},
                            {"Qwen 0.5B q, k, v", 1152, 896},
                            {"Qwen 0.5B gate, up", 9728, 896},
                            {"Qwen 0.5B down", 896, 4864}};

enum class Kind { f16, int8, w4_f16, w4_exact };
constexpr const char* kind_names[] = {"f16", "int8", "w4a16, activations f16", "w4a16, exact"};

// The least share of the roofline among layers of 4M weights and more: what fewer weights take is latency.
struct Bounds {
  const char* device;
  Kind kind;
  double share;
};
void PrintTo(const Bounds& bounds, std::ostream* to) {
  *to << bounds.device << ", " << kind_names[static_cast<int>(bounds.kind)];
}
constexpr Bounds bounds[] = {{"ascend-a2-like", Kind::f16, 0.45},      {"ascend-a2-like", Kind::int8, 0.26},
                             {"ascend-a2-like", Kind::w4_f16, 0.07},   {"ascend-a2-like", Kind::w4_exact, 0.06},
                             {"hexagon-htp-like", Kind::f16, 0.62},    {"hexagon-htp-like", Kind::int8, 0.59},
                             {"hexagon-htp-like", Kind::w4_f16, 0.50}, {"hexagon-htp-like", Kind::w4_exact, 0.29},
                             {"systolic32", Kind::f16, 0.29},          {"systolic32", Kind::int8, 0.39},
                             {"systolic32", Kind::w4_f16, 0.24},       {"systolic32", Kind::w4_exact, 0.11},
                             {"systolic128", Kind::f16, 0.47},         {"systolic128", Kind::int8, 0.26},
                             {"systolic128", Kind::w4_f16, 0.04},      {"systolic128", Kind::w4_exact, 0.01}};

Expected<NpuEstimate> estimate_of(const NpuEstimator& npu, Kind kind, index m, const Layer& layer) {
  AbsentTensors tensors;
  if (kind == Kind::f16) return estimate(npu, LinearShape{.m = m, .n = layer.n, .k = layer.k}.make(tensors));
  if (kind == Kind::int8) return estimate(npu, LinearInt8Shape{m, layer.n, layer.k, DType::i8}.make(tensors));
  return estimate(npu, LinearW4a16Shape{.m = m, .n = layer.n, .k = layer.k}.make(tensors));
}

class LinearRows : public testing::TestWithParam<Bounds> {};

TEST_P(LinearRows, MoreRowsNeverCostMuchLess) {
  const Bounds& bound = GetParam();
  const char* sweep = std::getenv("INLAY_SWEEP");
  const bool whole = sweep != nullptr && std::string_view(sweep) == "whole";
  const auto mode = bound.kind == Kind::w4_f16 ? NpuActivations::f16 : NpuActivations::exact;
  auto npu = NpuEstimator::make({.device = bound.device, .activations = mode});
  ASSERT_TRUE(npu) << npu.error().message();
  std::vector<index> rows{1, 16, 96, 128, 512};
  if (whole) rows = {1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512};
  // The logs of exact codes have an entry for each group.
  if (!whole && bound.kind == Kind::w4_exact) rows = {1, 8, 64};
  const std::string_view device = bound.device;
  const bool quick = device == "hexagon-htp-like" || device == "systolic128";  // logs of few entries
  const double more = whole ? 1.2 : 1.05;
  double least = 1, most = 0;
  for (const Layer& layer : layers) {
    const bool large = layer.n * layer.k >= index{1} << 24;
    if (!whole && (!layer.always || (large && (!quick || bound.kind == Kind::w4_exact)))) continue;
    double above = 0;  // the least cost of more rows
    for (auto m = rows.rbegin(); m != rows.rend(); ++m) {
      const auto cost = estimate_of(*npu, bound.kind, *m, layer);
      ASSERT_TRUE(cost) << layer.name << ": " << cost.error().message();
      const std::string what = std::string(layer.name) + ", " + std::to_string(*m) + " rows";
      if (above > 0) {
        EXPECT_LE(cost->cycles, more * above) << what;
        most = std::max(most, cost->cycles / above);
      }
      above = above > 0 ? std::min(above, cost->cycles) : cost->cycles;
      // Of exact codes many rows have a drain for each group: their share is in shares_linear.cpp.
      if (layer.n * layer.k < index{1} << 22 || (bound.kind == Kind::w4_exact && *m > 64)) continue;
      EXPECT_GE(cost->problem_share, bound.share) << what;
      least = std::min(least, cost->problem_share);
    }
  }
  std::printf("| %s | %s | %.0f %% | %.2f |\n", bound.device, kind_names[static_cast<int>(bound.kind)], 100 * least,
              most);
}

INSTANTIATE_TEST_SUITE_P(Devices, LinearRows, testing::ValuesIn(bounds), [](const auto& made) {
  std::string name = std::string(made.param.device) + "_" + kind_names[static_cast<int>(made.param.kind)];
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace inlay::test
