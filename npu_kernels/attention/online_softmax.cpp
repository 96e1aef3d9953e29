#include "npu_kernels/attention/online_softmax.hpp"

#include <limits>

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
  core_.vfill(maximum_, -std::numeric_limits<float>::infinity());
  core_.vfill(total_, 0);
}

void OnlineSoftmax::tile(const Tensor& s, const Tensor& alpha, float scale) {
  core_.vscalar(VectorOp::mul, s, s, scale);
  core_.vreduce(VectorOp::reduce_max, tile_maximum_, s);
  core_.vbinary(VectorOp::max, fresh_maximum_, maximum_, tile_maximum_);
  core_.vbinary(VectorOp::sub, alpha, maximum_, fresh_maximum_);
  core_.vbinary(VectorOp::sub, s, s, fresh_maximum_);
  core_.vcast(maximum_, fresh_maximum_);
  core_.vunary(VectorOp::exp, alpha, alpha);
  core_.vunary(VectorOp::exp, s, s);
  core_.vbinary(VectorOp::mul, total_, total_, alpha);
  core_.vreduce(VectorOp::reduce_sum, tile_total_, s);
  core_.vbinary(VectorOp::add, total_, total_, tile_total_);
}

}  // namespace inlay::npu
