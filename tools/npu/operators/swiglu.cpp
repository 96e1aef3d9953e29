#include <inlay/ops/swiglu.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_swiglu(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 14336);
  const DType type = shape.type("type", DType::f16);
  return shape.plan(npu, Swiglu<Host>{.gate = shape.in<2>(type, {rows, dim}),
                                      .up = shape.in<2>(type, {rows, dim}),
                                      .y = shape.out<2>(type, {rows, dim})});
}

const Registered swiglu("swiglu", plan_swiglu);

}  // namespace

}  // namespace inlay::tools
