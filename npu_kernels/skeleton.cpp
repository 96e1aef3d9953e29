// y[t,:] = slope * x[t,:] + intercept[:], a tile of rows and columns after the other:
//
//   load_vector   x         vector   one product, one sum         store   y
#include <inlay/ops/skeleton.hpp>

#include <algorithm>

#include "npu_kernels/backend/operator.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

struct SkeletonOperands {
  NdTensor x, intercept, y;
  bool shifted;
  float slope;
};

void skeleton(Core& core, const SkeletonOperands& op) {
  // Two tiles of x, two of y and an f32 one between them.
  const index rows = op.x.extent(0), dim = op.x.extent(1);
  const index columns = std::clamp<index>(dim, 2, 2048), tile = std::min<index>(rows, 4);
  Ring in = core.ring("x", Space::vector, {tile, columns}, op.x.first.dtype, {2, Pipe::load_vector, Pipe::vector});
  Ring shift = core.ring("intercept", Space::vector, {1, columns}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("y", Space::vector, {tile, columns}, op.y.first.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor wide = core.alloc("x in f32", Space::vector, {tile, columns}, DType::f32);

  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index across = ceil_div(dim, columns), tiles = ceil_div(rows, tile) * across;
  for (index t = core.vector_worker(); t < tiles; t += core.vector_workers()) {
    const index r = t / across * tile, c = t % across * columns;
    const index m = std::min(tile, rows - r), n = std::min(columns, dim - c);
    const auto window = [&](const Tensor& full) { return full.slice(0, m, 0, n); };
    const auto part = [&](const NdTensor& full) { return full.slice(0, r, m).slice(1, c, n); };
    core.copy(by_axes(window(in.acquire())), part(op.x));
    in.commit();
    core.vcast(window(wide), window(in.wait()));
    in.release();
    core.vscalar(VectorOp::mul, window(wide), window(wide), op.slope);
    if (op.shifted) {
      core.copy(by_axes(shift.acquire().slice(0, 1, 0, n)).at(0, 0), op.intercept.slice(0, c, n));
      shift.commit();
      core.vbinary(VectorOp::add, window(wide), window(wide), shift.wait().slice(0, 1, 0, n));
      shift.release();
    }
    core.vcast(window(out.acquire()), window(wide));
    out.commit();
    core.copy(part(op.y), by_axes(window(out.wait())));
    out.release();
  }
}

}  // namespace

Program program(GlobalMemory& memory, const Skeleton<Host>& op, const Choices&) {
  SkeletonOperands operands{.x = memory.bind("x", op.x),
                            .intercept = {},
                            .y = memory.bind("y", op.y, Use::out),
                            .shifted = op.intercept.present(),
                            .slope = op.slope};
  if (operands.shifted) operands.intercept = memory.bind("intercept", op.intercept);
  const index elements = op.x.extents[0] * op.x.extents[1];
  return {.body = [operands](Core& core) { skeleton(core, operands); },
          .problem = {.bytes = static_cast<std::uint64_t>(2 * byte_size(op.x.dtype, elements))},
          .launch = {.cores = cores_for(op.x.extents[0], 4, memory.cores())}};
}

template struct Operator<Skeleton<Host>>;

}  // namespace inlay::npu
