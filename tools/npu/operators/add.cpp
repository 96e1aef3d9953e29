#include <inlay/ops/add.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_add(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 4096);
  const DType type = shape.type("type", DType::f16);
  return shape.plan(npu, Add<Host>{.a = shape.in<2>(type, {rows, dim}),
                                   .b = shape.in<2>(type, {rows, dim}),
                                   .y = shape.out<2>(type, {rows, dim})});
}

const Registered add("add", plan_add);

}  // namespace

}  // namespace inlay::tools
