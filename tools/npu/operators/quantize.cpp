#include <inlay/ops/quantize.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_quantize(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 4096);
  const DType type = shape.type("type", DType::f16);
  return shape.plan(npu, Quantize<Host>{.x = shape.in<2>(type, {rows, dim}),
                                        .y = shape.out<2>(DType::i8, {rows, dim}),
                                        .row_scale = shape.out<1>(DType::f32, {rows})});
}

const Registered quantize("quantize", plan_quantize);

}  // namespace

}  // namespace inlay::tools
