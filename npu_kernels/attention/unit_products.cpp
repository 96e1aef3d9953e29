#include "npu_kernels/attention/unit_products.hpp"

#include <algorithm>

namespace inlay::npu {

UnitProducts::UnitProducts(Core& core, const MatrixTiles& t)
    : core_(core),
      depth_(t.depth),
      left_(core.ring("left", Space::left, {std::max(t.score_rows, t.product_rows), t.depth}, DType::f16,
                      {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      right_(core.ring("right", Space::right, {t.depth, std::max(t.score_columns, t.value_columns)}, DType::f16,
                       {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      sums_(core.ring(
          "sums", Space::accumulator, {1, std::max(t.score_rows * t.score_columns, t.product_rows * t.value_columns)},
          DType::f32,
          {static_cast<std::uint32_t>(t.sums), Pipe::matrix, Pipe::drain, core.device().sync.unit_flag_bytes > 0})) {}

// An accumulator as so many rows and columns.
Tensor UnitProducts::window(const Tensor& slot) const {
  const Tensor most = slot.slice(0, 1, 0, most_rows_ * most_columns_).reshape({most_rows_, most_columns_});
  return most.slice(0, rows_, 0, columns_);
}

void UnitProducts::begin(index most_rows, index most_columns, index rows, index columns) {
  most_rows_ = most_rows, most_columns_ = most_columns, rows_ = rows, columns_ = columns;
  sum_ = window(sums_.acquire());
  first_ = true;
}

void UnitProducts::add(const Tensor& left, index pieces, index apart, const Tensor& right, bool transpose) {
  const index depth = transpose ? right.columns() : right.rows();
  for (index k = 0; k < depth; k += depth_) {
    const index n = std::min(depth_, depth - k);
    const Tensor part = transpose ? right.slice(0, right.rows(), k, n) : right.row_slice(k, n);
    core_.load_b(right_.acquire().slice(0, n, 0, columns_), part, transpose);
    right_.commit();
    const Tensor b = right_.wait().slice(0, n, 0, columns_);
    for (index piece = 0; piece < pieces; ++piece, first_ = false) {
      core_.load_a(left_.acquire().slice(0, rows_, 0, n), left.slice(piece * apart, rows_, k, n));
      left_.commit();
      core_.mma(sum_, left_.wait().slice(0, rows_, 0, n), b, first_);
      left_.release();
    }
    right_.release();
  }
}

void UnitProducts::drain(const Tensor& to, float scale) {
  sums_.commit();
  core_.drain(to, window(sums_.wait()), {.scale = scale});
  sums_.release();
}

}  // namespace inlay::npu
