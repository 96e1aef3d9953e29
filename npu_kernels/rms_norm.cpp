#include "npu_kernels/rms_norm.hpp"

#include <algorithm>

#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Rows of a tile: two in flight on each side, f32 copies of the values and of their squares between them.
index rows_of_a_tile(const Core& core, const RmsNormOperands& op) {
  const Memory& memory = core.device().memory(Space::vector);
  const auto row = [&](DType dtype) { return round_up(byte_size(dtype, op.x.columns()), memory.align); };
  const index wide = row(DType::f32);
  const index taken = row(op.weight.dtype) + wide, statistics = memory.align;
  const index per_row = 2 * row(op.x.dtype) + 2 * row(op.y.dtype) + 2 * wide + 4;
  const index fit = (static_cast<index>(memory.bytes) - taken - statistics) / per_row;
  const index share = op.x.rows() / core.vector_workers() / 16;  // the first load and the last store stand alone
  return std::max<index>(1, std::min(fit, share));
}

}  // namespace

Problem rms_norm_problem(const RmsNormOperands& op) {
  const index columns = op.x.columns();
  const index rows = op.x.rows() * (byte_size(op.x.dtype, columns) + byte_size(op.y.dtype, columns));
  return {.bytes = static_cast<std::uint64_t>(rows + byte_size(op.weight.dtype, columns))};
}

void rms_norm(Core& core, const RmsNormOperands& op) {
  const index columns = op.x.columns(), tile = rows_of_a_tile(core, op);
  Ring in = core.ring("x", Space::vector, {tile, columns}, op.x.dtype, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("y", Space::vector, {tile, columns}, op.y.dtype, {2, Pipe::vector, Pipe::store});
  const Tensor narrow = core.alloc("weight", Space::vector, {1, columns}, op.weight.dtype);
  const Tensor weight = core.alloc("weight in f32", Space::vector, {1, columns}, DType::f32);
  const Tensor values = core.alloc("values", Space::vector, {tile, columns}, DType::f32);
  const Tensor squares = core.alloc("squares", Space::vector, {tile, columns}, DType::f32);
  const Tensor scales = core.alloc("scales", Space::vector, {tile, 1}, DType::f32);

  const Chain chain = core.chain(Pipe::vector);
  core.copy(narrow, op.weight);
  core.set(Pipe::load_vector, Pipe::vector, 0);
  core.wait(Pipe::load_vector, Pipe::vector, 0);
  core.vcast(weight, narrow);

  const index tiles = ceil_div(op.x.rows(), tile), me = core.vector_worker(), all = core.vector_workers();
  const auto rows_of = [&](index t) { return std::min(tile, op.x.rows() - t * tile); };
  const auto load = [&](index t) {
    core.copy(in.acquire().row_slice(0, rows_of(t)), op.x.row_slice(t * tile, rows_of(t)));
    in.commit();
  };

  if (me < tiles) load(me);
  for (index t = me; t < tiles; t += all) {
    if (t + all < tiles) load(t + all);
    const index rows = rows_of(t);
    const Tensor x = values.row_slice(0, rows), x2 = squares.row_slice(0, rows), scale = scales.row_slice(0, rows);

    core.vcast(x, in.wait().row_slice(0, rows));
    in.release();
    core.vbinary(VectorOp::mul, x2, x, x);
    core.vreduce(VectorOp::reduce_sum, scale, x2);
    core.vscalar(VectorOp::mul, scale, scale, 1.0f / static_cast<float>(columns));
    core.vscalar(VectorOp::add, scale, scale, op.eps);
    core.vunary(VectorOp::rsqrt, scale, scale);
    core.vbinary(VectorOp::mul, x, x, scale);
    core.vbinary(VectorOp::mul, x, x, weight);
    core.vcast(out.acquire().row_slice(0, rows), x);
    out.commit();

    core.copy(op.y.row_slice(t * tile, rows), out.wait().row_slice(0, rows));
    out.release();
  }
}

}  // namespace inlay::npu
