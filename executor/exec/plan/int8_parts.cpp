#include <inlay/exec/plan/int8_parts.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <inlay/core/element.hpp>

namespace inlay::exec {
namespace {

// What the clipped part of input i adds to a row of sums.
void add_column(const OutliersOfInt8<Host>& op, index i, float clipped, float* sums) {
  using namespace linear_int8;
  const index n = op.y.extents[1], groups = op.weight.extents[1];
  const auto* const weight = op.weight.as<std::int8_t>() + i / group * line + i % group;
  for (index o = 0; o < n; ++o)
    sums[o] += clipped * static_cast<float>(weight[o / panel * groups * line + o % panel * group]);
}

}  // namespace

Status compute(const Cpu& cpu, const OutliersOfInt8<Host>& op, const Workspace&) {
  const index tokens = op.x.extents[0], k = op.x.extents[1], n = op.y.extents[1];
  const float scale = *op.x_scale.as<float>();
  cpu.parallel()(tokens, [&](index t) {
    const float* const x = op.x.as<float>() + t * op.x.strides[0];
    float* const sums = op.y.as<float>() + t * n;
    const bool finite = std::all_of(x, x + k, [](float each) { return std::isfinite(each); });
    std::fill_n(sums, n, finite ? 0.0F : std::numeric_limits<float>::quiet_NaN());
    for (index i = 0; finite && i < k; ++i) {
      const float r = std::nearbyint(x[i] / scale), clipped = r - std::min(127.0F, std::max(-128.0F, r));
      if (clipped != 0) add_column(op, i, clipped, sums);
    }
  });
  return {};
}

Status compute(const Cpu& cpu, const FinishInt8<Host>& op, const Workspace&) {
  const index tokens = op.y.extents[0], n = op.y.extents[1];
  const float x_scale = *op.x_scale.as<float>();
  const auto* const scales = op.weight_scale.as<float>();
  const index step = op.weight_scale.extents[0] == 1 ? 0 : 1;
  cpu.parallel()(tokens, [&](index t) {
    const auto* const acc = op.acc.as<std::int32_t>() + t * n;
    const auto* const outliers = op.outliers.as<float>() + t * n;
    float* const y = op.y.as<float>() + t * op.y.strides[0];
    for (index o = 0; o < n; ++o) {
      y[o] = (static_cast<float>(acc[o]) + outliers[o]) * (x_scale * scales[o * step]);
      if (op.bias.present())
        y[o] += static_cast<float>(load_element(op.bias.data, op.bias.dtype, o * op.bias.strides[0]));
    }
  });
  return {};
}

bool has_int8_parts(const LinearInt8<Host>& op) {
  return op.shadow_outliers && op.x.dtype == DType::f32 && op.y.dtype == DType::f32 && op.x_scale.extents[0] == 1 &&
         !op.x_zero.present() && !op.weight_zero.present() && !op.expert_ends.present();
}

}  // namespace inlay::exec
