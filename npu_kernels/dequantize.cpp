// y = (x - zero) * scale, rounded to f32 and then to y's type
//
//   load_vector   x, scale, zero     vector   a difference, a product     store   y
#include <inlay/ops/dequantize.hpp>

#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/groups.hpp"

namespace inlay::npu {

namespace {

struct DequantizeOperands {
  rows::Grid grid{};
  rows::Codes x{}, scale{}, zero{};
  NdTensor y{};
  DType code{}, scales{};
  rows::Groups groups{};
  bool shifted = false, half = false;  // there are zero points; codes of half a byte begin anywhere
};

// An element of its own is its own group.
constexpr rows::Groups each{.of_rows = 1, .of_columns = 1};

void dequantize(Core& core, const DequantizeOperands& op) {
  rows::Need need = rows::Need().input(op.code).output(op.y.first.dtype).input(op.scales);
  if (op.shifted) need.input(op.code);
  if (op.half) need.spare().spare().spare().spare().spare().spare();
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const rows::TileIterator walk(core, op.grid, need, rows::pattern_of(op.groups, op.half));
  rows::GroupedInput x(core, "x", walk, op.x, each), scale(core, "scale", walk, op.scale, op.groups);
  std::optional<rows::GroupedInput> zero;
  if (op.shifted) zero.emplace(core, "zero", walk, op.zero, op.groups);
  rows::Output y(core, "y", walk, op.y);

  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    const Tensor values = x.wide();
    if (zero) {
      rows::combine(core, VectorOp::sub, values, values, zero->wide(), op.groups);
      zero->done();
    }
    rows::combine(core, VectorOp::mul, y.into(window, values), values, scale.wide(), op.groups);
    scale.done();
    y.store(window);
    x.done();
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Dequantize<Host>& op, const Choices&) {
  const bool shifted = op.zero.present();
  const bool half = bits(op.x.dtype) == 4 && (shifted || !rows::in_whole_bytes(op.x));
  DequantizeOperands operands{.grid = {.rows = op.x.extents[0], .columns = op.x.extents[1]},
                              .x = rows::codes_of(memory, "x", op.x, half, Use::in),
                              .scale = rows::codes_of(memory, "scale", op.scale, false, Use::in),
                              .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                              .code = op.x.dtype,
                              .scales = op.scale.dtype,
                              .groups = rows::groups_of(op.scale, op.row_group, op.column_group),
                              .shifted = shifted,
                              .half = half};
  if (shifted) operands.zero = rows::codes_of(memory, "zero", op.zero, half, Use::in);
  return {.body = [operands](Core& core) { dequantize(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.x, op.scale, op.zero, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Dequantize<Host>>;

}  // namespace inlay::npu
