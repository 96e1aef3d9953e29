// Products of a unit's rows on the matrix unit: steps of the depth through left and right into an accumulator, and out.
//
//   feed     left, right   left, right ..
//   matrix                 sum += left right ..
//   drain                                         scale * sum -> where the vector units find it
#pragma once

#include <algorithm>
#include <optional>

#include "npu_kernels/attention/plan.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class UnitProducts {
 public:
  UnitProducts(Core& core, const Tiles& t)
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
  // A sum of so many rows and columns, of `max_rows` and `max_columns`; stacked: of each of two pieces of left its own,
  // that of the second `stacked` rows behind the other.
  void begin(index max_rows, index max_columns, index rows, index columns, index stacked = 0) {
    max_rows_ = max_rows, max_columns_ = max_columns, rows_ = rows, columns_ = columns, stacked_ = stacked;
    sum_ = window(sums_ ? sums_->acquire() : accumulator_);
    first_ = true;
  }
  // sum (+)= left * right, or right's transpose, over pieces of left `apart` rows apart. A row's sum is the same
  // whatever the other rows are. Rows between two stacked pieces, of a unit that is shorter than others, hold nothing.
  void add(const Tensor& left, index pieces, index apart, const Tensor& right, bool transpose) {
    const index depth = transpose ? right.columns() : right.rows();
    for (index k = 0; k < depth; k += depth_) {
      const index n = std::min(depth_, depth - k);
      const Tensor part = transpose ? right.slice(0, right.rows(), k, n) : right.row_slice(k, n);
      core_.load_b(right_.acquire().slice(0, n, 0, columns_), part, transpose);
      right_.commit();
      const Tensor b = right_.wait().slice(0, n, 0, columns_);
      if (stacked_ == rows_)
        multiply(sum_, left.slice(0, pieces * rows_, k, n), b, first_);
      else
        for (index piece = 0; piece < pieces; ++piece)
          multiply(sum_.row_slice(piece * stacked_, rows_), left.slice(piece * apart, rows_, k, n), b,
                   first_ && (piece == 0 || stacked_ > 0));
      first_ = false;
      right_.release();
    }
  }
  void drain(const Tensor& to, float scale = 1) {
    if (sums_) sums_->commit();
    const Tensor sum = sums_ ? window(sums_->wait()) : sum_;
    if (stacked_ <= rows_)
      core_.drain(to, sum, {.scale = scale});
    else
      for (const index piece : {index{0}, stacked_})
        core_.drain(to.row_slice(piece, rows_), sum.row_slice(piece, rows_), {.scale = scale});
    if (sums_) sums_->release();
  }

 private:
  // An accumulator as so many rows and columns.
  Tensor window(const Tensor& slot) const {
    const Tensor most = slot.slice(0, 1, 0, max_rows_ * max_columns_).reshape({max_rows_, max_columns_});
    return most.slice(0, stacked_ + rows_, 0, columns_);
  }
  void multiply(const Tensor& sum, const Tensor& left, const Tensor& right, bool init) {
    const index rows = left.rows(), depth = left.columns();
    core_.load_a(left_.acquire().slice(0, rows, 0, depth), left);
    left_.commit();
    core_.mma(sum, left_.wait().slice(0, rows, 0, depth), right, init);
    left_.release();
  }

  Core& core_;
  const index depth_;
  Ring left_, right_;
  std::optional<Ring> sums_;  // none where one unit multiplies and drains, in order: one accumulator
  index max_rows_ = 0, max_columns_ = 0, rows_ = 0, columns_ = 0, stacked_ = 0;
  bool first_ = true;
  Tensor accumulator_, sum_;
};

}  // namespace inlay::npu
