#include <inlay/ops/merge_states.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_merge_states(const Npu& npu, Shape& shape) {
  const index states = shape.size("states", 4), tokens = shape.size("tokens", 64), heads = shape.size("heads", 32),
              dim = shape.size("dim", 128);
  const DType type = shape.type("type", DType::f32);
  return shape.plan(npu, MergeStates<Host>{.partial_out = shape.in<4>(type, {states, tokens, heads, dim}),
                                           .partial_lse = shape.in<3>(DType::f32, {states, tokens, heads}),
                                           .out = shape.out<3>(type, {tokens, heads, dim})});
}

const Registered merge_states("merge_states", plan_merge_states);

}  // namespace

}  // namespace inlay::tools
