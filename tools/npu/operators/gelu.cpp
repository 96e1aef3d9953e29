#include <inlay/ops/gelu.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

Expected<npu::Plan> plan_gelu(const Npu& npu, Shape& shape) {
  const index rows = shape.size("rows", 1024), dim = shape.size("dim", 14336);
  const DType type = shape.type("type", DType::f16);
  const std::string form = shape.word("form", {"erf", "tanh"});
  return shape.plan(npu, Gelu<Host>{.x = shape.in<2>(type, {rows, dim}),
                                    .y = shape.out<2>(type, {rows, dim}),
                                    .form = form == "tanh" ? GeluForm::tanh : GeluForm::erf});
}

const Registered gelu("gelu", plan_gelu);

}  // namespace

}  // namespace inlay::tools
