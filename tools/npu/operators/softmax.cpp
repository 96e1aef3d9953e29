#include <inlay/ops/softmax.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_softmax(const Npu& npu, Shape& shape) {
  const index heads = shape.size("heads", 1), rows = shape.size("rows", 1024), n = shape.size("n", 4096);
  const DType type = shape.type("type", DType::f16);
  return shape.plan(npu,
                    Softmax<Host>{.x = shape.in<3>(type, {heads, rows, n}), .y = shape.out<3>(type, {heads, rows, n})});
}

const Registered softmax("softmax", plan_softmax);

}  // namespace

}  // namespace inlay::tools
