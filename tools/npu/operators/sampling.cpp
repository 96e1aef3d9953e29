#include <inlay/ops/sampling.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_sampling(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1), vocab = shape.size("vocab", 128256);
  return shape.plan(npu, Sampling<Host>{.logits = shape.in<2>(DType::f32, {rows, vocab}),
                                        .tokens = shape.out<1>(DType::i32, {rows}),
                                        .temperature = 0});
}
const Registered sampling("sampling", plan_sampling);

}  // namespace

}  // namespace inlay::tools
