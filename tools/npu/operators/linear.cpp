#include <inlay/ops/linear.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_linear(const Npu& npu, Shape& shape) {
  const index m = shape.size("m", 512), n = shape.size("n", 4096), k = shape.size("k", 4096);
  const DType type = shape.type("type", DType::f16), weight = shape.type("weight", DType::f16);
  const bool rows = shape.flag("rows", false);  // the weight as rows, or packed
  Linear<Host> op{.x = shape.in<2>(type, {m, k}), .y = shape.out<2>(type, {m, n})};
  if (rows)
    op.weight_rows = shape.in<2>(weight, {n, k});
  else
    op.weight = shape.in<3>(weight, linear_packed_extents(n, k, weight));
  return shape.plan(npu, op);
}

const Registered linear("linear", plan_linear);

}  // namespace

}  // namespace inlay::tools
