#include "npu_kernels/attention/online_softmax.hpp"

namespace inlay::npu {

void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero) {
  core.vcompare(Compare::equal, none, total, 0.0f);
  core.vunary(VectorOp::recip, inverse, total);
  core.vselect(inverse, none, zero, inverse);
}

OnlineSoftmax::OnlineSoftmax(Core& core, index rows, DType scores, float scale) : core_(core), scale_(scale) {
  const auto column = [&](const char* name, DType dtype = DType::f32) {
    return core.alloc(name, Space::vector, {rows, 1}, dtype);
  };
  maximum_ = column("maximum");
  total_ = column("total");
  fresh_maximum_ = column("fresh maximum");
  tile_maximum_ = column("maximum of a tile", scores);
  tile_total_ = column("total of a tile");
}

void OnlineSoftmax::begin() {
  core_.vfill(maximum_, lowest_score);
  core_.vfill(total_, 0);
}

void OnlineSoftmax::weigh(const Tensor& s, const Tensor& weights, index first) {
  const auto used = [&](const Tensor& column) { return column.row_slice(first, s.rows()); };
  const Tensor fresh = used(fresh_maximum_);
  core_.vreduce(VectorOp::reduce_max, used(tile_maximum_), s);
  core_.vbinary(VectorOp::max, fresh, used(maximum_), used(tile_maximum_));
  core_.vbinary(VectorOp::sub, s, s, fresh);
  if (scale_ != 1) core_.vscalar(VectorOp::mul, s, s, scale_);
  core_.vunary(VectorOp::exp, weights, s);
}

void OnlineSoftmax::sum(const Tensor& weights, index first) {
  core_.vreduce(VectorOp::reduce_sum, tile_total_.row_slice(first, weights.rows()), weights);
}

// Where columns end early the others are what they would be: 0 was to be added to them.
void OnlineSoftmax::fold_and_sum(const Tensor& weights, index first, index columns) {
  const index rows = weights.rows();
  index count = weights.columns();
  for (int fold = 0; fold < 2; ++fold) {
    columns /= 2;
    if (count <= columns) continue;
    const Tensor front = weights.slice(0, rows, 0, count - columns);
    core_.vbinary(VectorOp::add, front, front, weights.slice(0, rows, columns, count - columns));
    count = columns;
  }
  sum(weights.slice(0, rows, 0, count), first);
}

void OnlineSoftmax::finish(const Tensor& alpha) {
  const auto used = [&](const Tensor& column) { return column.row_slice(0, alpha.rows()); };
  const Tensor maximum = used(maximum_), total = used(total_), fresh = used(fresh_maximum_);
  core_.vbinary(VectorOp::sub, alpha, maximum, fresh);
  core_.vcast(maximum, fresh);
  if (scale_ != 1) core_.vscalar(VectorOp::mul, alpha, alpha, scale_);
  core_.vunary(VectorOp::exp, alpha, alpha);
  core_.vbinary(VectorOp::mul, total, total, alpha);
  core_.vbinary(VectorOp::add, total, total, used(tile_total_));
}

void OnlineSoftmax::tile(const Tensor& s, const Tensor& alpha) {
  weigh(s, s, 0);
  sum(s, 0);
  finish(alpha.row_slice(0, s.rows()));
}

}  // namespace inlay::npu
