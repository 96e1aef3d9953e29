// g = min(gate, limit), u = max(-limit, min(up, limit)),   y = g * sigmoid(alpha g) * (u + up_offset)
//
//   load_vector   gate, up         vector   the sigmoid, two products         store   y
#include <inlay/ops/swiglu.hpp>

#include <cmath>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/sigmoid.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

struct SwigluOperands {
  rows::Grid grid;
  NdTensor gate, up, y;
  float alpha, limit, up_offset;
};

// Not the vector unit's min and max, which would take a NaN for the limit.
void clamp(Core& core, Compare beyond, const Tensor& x, float limit, const Tensor& limit_tile, const Tensor& mask) {
  core.vcompare(beyond, mask, x, limit);
  core.vselect(x, mask, limit_tile, x);
}

void swiglu(Core& core, const SwigluOperands& op) {
  const DType type = op.gate.first.dtype;
  const rows::TileIterator walk(core, op.grid, rows::Need().input(type).input(type).output(type).spare().spare());
  rows::Input gate(core, "gate", walk, op.gate), up(core, "up", walk, op.up);
  rows::Output y(core, "y", walk, op.y);
  const Tensor sigmoids = core.alloc("sigmoid", Space::vector, walk.tile(), DType::f32);
  const Tensor spare = core.alloc("1 + exp", Space::vector, walk.tile(), DType::f32);

  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const bool limited = std::isfinite(op.limit);
  Tensor most, least;
  if (limited) {
    most = rows::constant(core, "limit", op.limit);
    least = rows::constant(core, "-limit", -op.limit);
  }
  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    const Tensor g = gate.wide(), u = up.wide(), z = window.of(sigmoids), other = window.of(spare);
    if (limited) {
      clamp(core, Compare::greater, g, op.limit, most, other);
      clamp(core, Compare::greater, u, op.limit, most, other);
      clamp(core, Compare::less, u, -op.limit, least, other);
    }
    core.vscalar(VectorOp::mul, z, g, op.alpha);
    rows::sigmoid(core, z, other);
    core.vbinary(VectorOp::mul, g, g, z);
    core.vscalar(VectorOp::add, u, u, op.up_offset);  // also 0, which makes a -0 of `up` one of no sign
    core.vbinary(VectorOp::mul, y.into(window, g), g, u);
    gate.done();
    up.done();
    y.store(window);
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Swiglu<Host>& op, const Choices&) {
  const SwigluOperands operands{.grid = {.rows = op.gate.extents[0], .columns = op.gate.extents[1]},
                                .gate = rows::planes_of(memory.bind("gate", op.gate)),
                                .up = rows::planes_of(memory.bind("up", op.up)),
                                .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                                .alpha = op.alpha,
                                .limit = op.limit,
                                .up_offset = op.up_offset};
  return {.body = [operands](Core& core) { swiglu(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.gate, op.up, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Swiglu<Host>>;

}  // namespace inlay::npu
