#include <inlay/ops/dequantize.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_dequantize(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 4096);
  const DType from = shape.type("from", DType::i8), type = shape.type("type", DType::f16);
  return shape.plan(npu, Dequantize<Host>{.x = shape.in<2>(from, {rows, dim}),
                                          .scale = shape.in<2>(DType::f32, {rows, 1}),
                                          .y = shape.out<2>(type, {rows, dim})});
}

const Registered dequantize("dequantize", plan_dequantize);

}  // namespace

}  // namespace inlay::tools
