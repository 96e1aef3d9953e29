#include <inlay/ops/rms_norm.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_rms_norm(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 4096);
  const DType type = shape.type("type", DType::f16), to = shape.type("to", type);
  const bool residual = shape.flag("residual", false);
  return shape.plan(npu, RmsNorm<Host>{.x = shape.in<2>(type, {rows, dim}),
                                       .weight = shape.in<1>(DType::f32, {dim}),
                                       .residual = residual ? shape.out<2>(type, {rows, dim}) : View<2>(),
                                       .y = shape.out<2>(to, {rows, dim}),
                                       .y_scale = to == DType::i8 ? shape.out<1>(DType::f32, {rows}) : View<1>()});
}

const Registered rms_norm("rms_norm", plan_rms_norm);

}  // namespace

}  // namespace inlay::tools
