#include <inlay/ops/rope.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_rope(const Npu& npu, Shape& shape) {
  const index tokens = shape.size("tokens", 1024), heads = shape.size("heads", 32), dim = shape.size("dim", 128, 2);
  const DType type = shape.type("type", DType::f16);
  const bool interleaved = shape.flag("interleaved", false);
  return shape.plan(npu, Rope<Host>{.x = shape.in<3>(type, {tokens, heads, dim}),
                                    .cos = shape.in<2>(DType::f32, {tokens, dim / 2}),
                                    .sin = shape.in<2>(DType::f32, {tokens, dim / 2}),
                                    .y = shape.out<3>(type, {tokens, heads, dim}),
                                    .interleaved = interleaved});
}

const Registered rope("rope", plan_rope);

}  // namespace

}  // namespace inlay::tools
