#include "npu_kernels/attention/online_softmax.hpp"

namespace inlay::npu {

void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero) {
  core.vcompare(Compare::equal, none, total, 0.0f);
  core.vunary(VectorOp::recip, inverse, total);
  core.vselect(inverse, none, zero, inverse);
}

OnlineSoftmax::OnlineSoftmax(Core& core, index rows) : core_(core) {
  const auto column = [&](const char* name) { return core.alloc(name, Space::vector, {rows, 1}, DType::f32); };
  maximum_ = column("maximum");
  total_ = column("total");
  fresh_maximum_ = column("fresh maximum");
  tile_maximum_ = column("maximum of a tile");
  tile_total_ = column("total of a tile");
}

void OnlineSoftmax::begin() {
  core_.vfill(maximum_, lowest_score);
  core_.vfill(total_, 0);
}

void OnlineSoftmax::tile(const Tensor& s, const Tensor& factors, float scale) {
  const auto used = [&](const Tensor& column) { return column.row_slice(0, s.rows()); };
  const Tensor alpha = used(factors), maximum = used(maximum_), total = used(total_), fresh = used(fresh_maximum_);
  if (scale != 1) core_.vscalar(VectorOp::mul, s, s, scale);
  core_.vreduce(VectorOp::reduce_max, used(tile_maximum_), s);
  core_.vbinary(VectorOp::max, fresh, maximum, used(tile_maximum_));
  core_.vbinary(VectorOp::sub, alpha, maximum, fresh);
  core_.vbinary(VectorOp::sub, s, s, fresh);
  core_.vcast(maximum, fresh);
  core_.vunary(VectorOp::exp, alpha, alpha);
  core_.vunary(VectorOp::exp, s, s);
  core_.vbinary(VectorOp::mul, total, total, alpha);
  core_.vreduce(VectorOp::reduce_sum, used(tile_total_), s);
  core_.vbinary(VectorOp::add, total, total, used(tile_total_));
}

}  // namespace inlay::npu
