#include <inlay/ops/linear_w4a16.hpp>

#include "tools/npu/shape.hpp"

namespace inlay::tools {

namespace {

// Codes of 4 bits with a scale and a zero point for each group.
Expected<npu::Plan> plan_linear_w4a16(const Npu& npu, Shape& shape) {
  const index m = shape.size("m", 1), n = shape.size("n", 4096), k = shape.size("k", 4096),
              group = shape.size("group", 128);
  const DType type = shape.type("type", DType::f16);
  const index groups = (k + group - 1) / group;
  return shape.plan(npu,
                    LinearW4a16<Host>{.x = shape.in<2>(type, {m, k}),
                                      .codes = shape.in<3>(DType::u8, {w4_panels(n), w4_steps(k, 4), 4 * w4_panel}),
                                      .scales = shape.in<3>(DType::f16, {w4_panels(n), groups, w4_panel}),
                                      .zeros = shape.in<3>(DType::u8, {w4_panels(n), groups, w4_panel}),
                                      .y = shape.out<2>(type, {m, n}),
                                      .group = group});
}

const Registered linear_w4a16("linear_w4a16", plan_linear_w4a16);

}  // namespace

}  // namespace inlay::tools
