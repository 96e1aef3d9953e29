#include "npu_kernels/attention/products.hpp"

#include <algorithm>

namespace inlay::npu {

UnitProducts::UnitProducts(Core& core, const Tiles& t)
    : core_(core),
      depth_(t.depth),
      left_(core.ring("left", Space::left, {std::max(t.score_rows, t.sum_rows()), t.depth}, DType::f16,
                      {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      right_(core.ring("right", Space::right, {t.depth, std::max(t.score_columns, t.value_columns)}, DType::f16,
                       {2, Pipe::feed, Pipe::matrix}, Layout::nz)) {
  const Shape most{1, std::max(t.score_rows * t.score_columns, t.sum_rows() * t.value_columns)};
  const Device& device = core.device();
  const std::size_t matrix = device.queue_of[static_cast<std::size_t>(Pipe::matrix)];
  if (device.queue_of[static_cast<std::size_t>(Pipe::drain)] == matrix && device.queues[matrix].in_order_visible)
    accumulator_ = core.alloc("sum", Space::accumulator, most, DType::f32);
  else
    sums_.emplace(core.ring(
        "sums", Space::accumulator, most, DType::f32,
        {static_cast<std::uint32_t>(t.accumulators), Pipe::matrix, Pipe::drain, device.sync.unit_flag_bytes > 0}));
}

// An accumulator as so many rows and columns.
Tensor UnitProducts::window(const Tensor& slot) const {
  const Tensor most = slot.slice(0, 1, 0, max_rows_ * max_columns_).reshape({max_rows_, max_columns_});
  return most.slice(0, rows_, 0, columns_);
}

void UnitProducts::begin(index max_rows, index max_columns, index rows, index columns) {
  max_rows_ = max_rows, max_columns_ = max_columns, rows_ = rows, columns_ = columns;
  sum_ = window(sums_ ? sums_->acquire() : accumulator_);
  first_ = true;
}

template <class Visit> void UnitProducts::each_depth(const Tensor& right, bool transpose, Visit&& visit) {
  const index depth = transpose ? right.columns() : right.rows();
  for (index k = 0; k < depth; k += depth_) {
    const index n = std::min(depth_, depth - k);
    const Tensor part = transpose ? right.slice(0, right.rows(), k, n) : right.row_slice(k, n);
    core_.load_b(right_.acquire().slice(0, n, 0, columns_), part, transpose);
    right_.commit();
    visit(k, n, right_.wait().slice(0, n, 0, columns_));
    right_.release();
  }
}

void UnitProducts::add(const Tensor& left, index pieces, index apart, const Tensor& right, bool transpose) {
  each_depth(right, transpose, [&](index k, index n, const Tensor& b) {
    for (index piece = 0; piece < pieces; ++piece, first_ = false)
      multiply(sum_, left.slice(piece * apart, rows_, k, n), b);
  });
}

// A row's sum is the same whatever the other rows are. Rows between the two pieces, of a unit that is shorter than
// others, hold nothing.
void UnitProducts::add_stacked(const Tensor& left, index apart, const Tensor& right) {
  const index rows = rows_ - apart;
  each_depth(right, false, [&](index k, index n, const Tensor& b) {
    if (rows == apart) {
      multiply(sum_, left.slice(0, rows_, k, n), b);
    } else {
      multiply(sum_.row_slice(0, rows), left.slice(0, rows, k, n), b);
      multiply(sum_.row_slice(apart, rows), left.slice(apart, rows, k, n), b);
    }
    first_ = false;
  });
}

void UnitProducts::multiply(const Tensor& sum, const Tensor& left, const Tensor& right) {
  const index rows = left.rows(), depth = left.columns();
  core_.load_a(left_.acquire().slice(0, rows, 0, depth), left);
  left_.commit();
  core_.mma(sum, left_.wait().slice(0, rows, 0, depth), right, first_);
  left_.release();
}

// The sum on its way out.
Tensor UnitProducts::finished() {
  if (!sums_) return sum_;
  sums_->commit();
  return window(sums_->wait());
}

void UnitProducts::release() {
  if (sums_) sums_->release();
}

void UnitProducts::drain(const Tensor& to, float scale) {
  core_.drain(to, finished(), {.scale = scale});
  release();
}

void UnitProducts::drain_stacked(const Tensor& to, const Tensor& low, index apart) {
  const Tensor sums = finished();
  core_.drain(to, sums.row_slice(0, to.rows()));
  core_.drain(low, sums.row_slice(apart, low.rows()));
  release();
}

}  // namespace inlay::npu
