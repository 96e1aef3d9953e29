// y[t,:] = a[t,:] + b[t,:], or + b[0,:]
//
//   load_vector   a, b         vector   one sum         store   y
#include <inlay/ops/add.hpp>

#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

struct AddOperands {
  rows::Grid grid;
  NdTensor a, b, y;
  bool bias;  // b is one row
};

void add(Core& core, const AddOperands& op) {
  const DType of_a = op.a.first.dtype, of_b = op.b.first.dtype;
  rows::Need need;
  op.bias ? need.row(of_b) : need.input(of_b);
  const rows::TileIterator walk(core, op.grid, need.input(of_a).output(of_a));
  rows::Input a(core, "a", walk, op.a);
  std::optional<rows::Input> each;
  std::optional<rows::SharedRow> shared;
  op.bias ? (void)shared.emplace(core, "b", walk, op.b.at(0, 0)) : (void)each.emplace(core, "b", walk, op.b);
  rows::Output y(core, "y", walk, op.y);

  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  for (index step = 0; step < walk.steps(); ++step) {
    const rows::Window window = walk.at(step);
    const Tensor left = a.wide(), right = op.bias ? shared->at(window) : each->wide();
    core.vbinary(VectorOp::add, y.into(window, left), left, right);
    a.done();
    if (each) each->done();
    y.store(window);
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Add<Host>& op, const Choices&) {
  const bool bias = op.b.extents[0] == 1;
  const NdTensor b = memory.bind("b", op.b);
  const AddOperands operands{.grid = {.rows = op.a.extents[0], .columns = op.a.extents[1]},
                             .a = rows::planes_of(memory.bind("a", op.a)),
                             .b = bias ? b : rows::planes_of(b),
                             .y = rows::planes_of(memory.bind("y", op.y, Use::out)),
                             .bias = bias};
  return {.body = [operands](Core& core) { add(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.a, op.b, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Add<Host>>;

}  // namespace inlay::npu
