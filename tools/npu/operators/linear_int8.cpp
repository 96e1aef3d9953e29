#include <inlay/ops/linear_int8.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_linear_int8(const Npu& npu, Shape& shape) {
  const index m = shape.size("m", 512), n = shape.size("n", 4096), k = shape.size("k", 4096);
  const DType type = shape.type("type", DType::f16), to = shape.type("to", DType::f16);
  return shape.plan(npu, LinearInt8<Host>{.x = shape.in<2>(type, {m, k}),
                                          .x_scale = type == DType::i8 ? shape.in<1>(DType::f32, {m}) : ConstView<1>(),
                                          .weight = shape.in<3>(DType::i8, {(n + 15) / 16, (k + 3) / 4, 64}),
                                          .weight_sum = shape.in<1>(DType::i32, {n}),
                                          .weight_scale = shape.in<1>(DType::f32, {n}),
                                          .y = shape.out<2>(to, {m, n})});
}

const Registered linear_int8("linear_int8", plan_linear_int8);

}  // namespace

}  // namespace inlay::tools
