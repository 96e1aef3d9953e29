#include <inlay/ops/embedding.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_embedding(const Npu& npu, Shape& shape) {
  const index tokens = shape.size("tokens", 256), vocab = shape.size("vocab", 128256), dim = shape.size("dim", 4096);
  const DType table = shape.type("table", DType::f16), type = shape.type("type", DType::f32);
  return shape.plan(
      npu, Embedding<Host>{.table = shape.in<2>(table, {vocab, dim}),
                           .row_scale = table == DType::i8 ? shape.in<1>(DType::f32, {vocab}) : ConstView<1>(),
                           .ids = shape.list<1>(DType::i32, {tokens}, [&](index t) { return t * 7919 % vocab; }),
                           .y = shape.out<2>(type, {tokens, dim})});
}

const Registered embedding("embedding", plan_embedding);

}  // namespace

}  // namespace inlay::tools
