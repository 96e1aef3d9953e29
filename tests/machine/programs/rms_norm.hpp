// y[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + epsilon) * gamma, in one pass: a row stays in the vector's
// memory from its load to its store, all arithmetic is f32.
//
//   load_vector   rows of x     vector   the sum of squares, then the two products     store   rows of y
#pragma once

#include <algorithm>
#include <utility>

#include "npu_kernels/machine/tensor.hpp"

namespace inlay::npu {

struct RmsNorm {
  Tensor x, gamma, y;  // gamma: one row
  float epsilon = 1e-6f;
};

// Rows of a tile: two in flight on each side, f32 copies of the values and of their squares between them.
template <class Machine> index rms_norm_rows(const Machine& m, const RmsNorm& op) {
  const auto row = [&](DType dtype) {
    const auto align = static_cast<index>(m.device().memory(Space::vector).align);
    return (byte_size(dtype, op.x.columns()) + align - 1) / align * align;
  };
  const index wide = row(DType::f32);
  const index taken = row(op.gamma.dtype) + wide, statistics = m.device().memory(Space::vector).align;
  const index per_row = 2 * row(op.x.dtype) + 2 * row(op.y.dtype) + 2 * wide + 4;
  const index fit = (static_cast<index>(m.device().memory(Space::vector).bytes) - taken - statistics) / per_row;
  const index share = op.x.rows() / m.block_dim() / 16;  // the first load and the last store stand alone
  return std::max<index>(1, std::min(fit, share));
}

template <class Machine> void rms_norm(Machine& m, const RmsNorm& op) {
  const index columns = op.x.columns(), tile = rms_norm_rows(m, op);
  auto in = m.ring("x", Space::vector, 2, {tile, columns}, op.x.dtype, Pipe::load_vector, Pipe::vector);
  auto out = m.ring("y", Space::vector, 2, {tile, columns}, op.y.dtype, Pipe::vector, Pipe::store);
  const Tensor narrow = m.alloc("gamma", Space::vector, {1, columns}, op.gamma.dtype);
  const Tensor gamma = m.alloc("gamma in f32", Space::vector, {1, columns}, DType::f32);
  const Tensor values = m.alloc("values", Space::vector, {tile, columns}, DType::f32);
  const Tensor squares = m.alloc("squares", Space::vector, {tile, columns}, DType::f32);
  const Tensor scales = m.alloc("scales", Space::vector, {tile, 1}, DType::f32);

  m.copy(narrow, op.gamma);
  m.set(Pipe::load_vector, Pipe::vector, 0);
  m.wait(Pipe::load_vector, Pipe::vector, 0);
  m.vcast(gamma, narrow);

  const index tiles = (op.x.rows() + tile - 1) / tile, me = m.block_idx(), cores = m.block_dim();
  const auto rows_of = [&](index t) { return std::min(tile, op.x.rows() - t * tile); };
  const auto load = [&](index t) {
    m.copy(in.acquire().row_slice(0, rows_of(t)), op.x.row_slice(t * tile, rows_of(t)));
    in.commit();
  };

  if (me < tiles) load(me);
  for (index t = me; t < tiles; t += cores) {
    if (t + cores < tiles) load(t + cores);
    const index rows = rows_of(t);
    const Tensor x = values.row_slice(0, rows), x2 = squares.row_slice(0, rows), scale = scales.row_slice(0, rows);

    m.vcast(x, in.wait().row_slice(0, rows));
    in.release();
    m.barrier(Pipe::vector);
    m.vbinary(VectorOp::mul, x2, x, x);
    m.barrier(Pipe::vector);
    m.vreduce(VectorOp::reduce_sum, scale, x2);
    m.barrier(Pipe::vector);
    m.vscalar(VectorOp::mul, scale, scale, 1.0f / static_cast<float>(columns));
    m.barrier(Pipe::vector);
    m.vscalar(VectorOp::add, scale, scale, op.epsilon);
    m.barrier(Pipe::vector);
    m.vunary(VectorOp::rsqrt, scale, scale);
    m.barrier(Pipe::vector);
    m.vbinary(VectorOp::mul, x, x, scale);
    m.barrier(Pipe::vector);
    m.vbinary(VectorOp::mul, x, x, gamma);
    m.barrier(Pipe::vector);
    m.vcast(out.acquire().row_slice(0, rows), x);
    out.commit();
    m.barrier(Pipe::vector);

    m.copy(op.y.row_slice(t * tile, rows), out.wait().row_slice(0, rows));
    out.release();
  }
}

}  // namespace inlay::npu
