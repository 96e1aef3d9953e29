#include "npu_kernels/linear/float_epilogue.hpp"

#include <algorithm>
#include <limits>

#include "npu_kernels/linear/split_f16.hpp"

namespace inlay::npu {

FloatEpilogue::FloatEpilogue(Core& core, Scratch& scratch, const FloatResult& result, const ProductTiles& tiles,
                             index steps)
    : core_(core),
      to_(result),
      steps_(steps),
      work_(scratch.alloc("y in f32", {tiles.vector_m, tiles.sum_n}, DType::f32)),
      other_(scratch.alloc("powers, or finite", {tiles.vector_m, tiles.sum_n}, DType::f32)),
      finished_(core, result.y, result.bias, {tiles.vector_m, tiles.sum_n}, 2) {
  if (result.row_power.present())
    row_powers_.emplace(core.ring("powers of rows", Space::vector, {tiles.vector_m, 2}, DType::f32,
                                  {2, Pipe::load_vector, Pipe::vector}));
  if (result.col_power.present())
    col_powers_.emplace(core.ring("powers of columns", Space::vector, {1, tiles.sum_n}, DType::f32,
                                  {2, Pipe::load_vector, Pipe::vector}));
  if (steps == 1) return;
  const Shape kept{kept_rows(core.vector_dim(), tiles), tiles.sum_n};
  kept_ = scratch.alloc("sums of the high halves", kept, DType::f32);
  rest_ = scratch.alloc("sums of the others", kept, DType::f32);
}

// All steps together, once the last one has come; before that nothing.
Tensor FloatEpilogue::total(const Sums& sums) {
  if (steps_ == 1) return sums.tile;
  const index m = sums.tile.rows(), n = sums.tile.columns();
  const Tensor kept = kept_.slice(sums.at, m, 0, n), rest = rest_.slice(sums.at, m, 0, n);
  if (sums.step < 2)
    core_.vcast(sums.step == 0 ? kept : rest, sums.tile);
  else
    core_.vbinary(VectorOp::add, rest, rest, sums.tile);
  if (!sums.last) return {};
  const Tensor y = work_.slice(0, m, 0, n), finite = other_.slice(0, m, 0, n);
  core_.vunary(VectorOp::abs, finite, kept);
  core_.vcompare(Compare::less, finite, finite, std::numeric_limits<float>::infinity());
  core_.vbinary(VectorOp::add, rest, kept, rest);
  core_.vselect(y, finite, rest, kept);
  return y;
}

// The product of two powers may overflow where a sum is zero: it stays finite.
void FloatEpilogue::scale(const Tensor& y, index row, index column) {
  const index m = y.rows(), n = y.columns();
  const bool rows = to_.row_power.present(), columns = to_.col_power.present();
  if (!rows && !columns) return;
  core_.vscalar(VectorOp::mul, y, y, rows && columns ? 1 / (half_scale * half_scale) : 1 / half_scale);
  const Tensor powers = other_.slice(0, m, 0, n);
  if (rows) {
    core_.copy(by_axes(row_powers_->acquire().slice(0, m, 0, 1)).at(1, 0),
               by_axes(to_.row_power).at(0, 0).slice(0, row, m));
    row_powers_->commit();
  }
  if (columns) {
    core_.copy(col_powers_->acquire().slice(0, 1, 0, n), to_.col_power.slice(0, 1, column, n));
    col_powers_->commit();
    core_.vbroadcast_row(powers, col_powers_->wait().slice(0, 1, 0, n));
    col_powers_->release();
    if (rows) {
      core_.vbinary(VectorOp::mul, powers, powers, row_powers_->wait().slice(0, m, 0, 1));
      core_.vscalar(VectorOp::min, powers, powers, std::numeric_limits<float>::max());
    }
    core_.vbinary(VectorOp::mul, y, y, powers);
  } else {
    core_.vbinary(VectorOp::mul, y, y, row_powers_->wait().slice(0, m, 0, 1));
  }
  if (rows) row_powers_->release();
}

void FloatEpilogue::operator()(const Sums& sums) {
  const index m = sums.tile.rows(), n = sums.tile.columns();
  const Tensor all = total(sums);
  if (!sums.last) return;
  const Tensor y = work_.slice(0, m, 0, n);
  if (steps_ == 1) core_.vcast(y, all);
  scale(y, sums.row, sums.column);
  finished_(y, sums.row, sums.column);
}

}  // namespace inlay::npu
