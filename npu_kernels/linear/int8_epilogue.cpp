#include "npu_kernels/linear/int8_epilogue.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

Tensor as(Tensor tile, DType dtype) {
  tile.dtype = dtype;
  return tile;
}

TileForm row_form(const char* name, const NdTensor& from, index columns) {
  return {name, Space::vector, {1, from.present() ? columns : 2}, from.present() ? from.first.dtype : DType::f32};
}
TileForm column_form(const char* name, const NdTensor& from, index rows) {
  return {name, Space::vector, {from.present() ? rows : 1, 2}, from.present() ? from.first.dtype : DType::f32};
}

}  // namespace

Int8Epilogue::Int8Epilogue(Core& core, Scratch& scratch, const Int8Result& to, const ProductTiles& tiles)
    : core_(core),
      y_(to.y),
      shadow_(to.shadow),
      from_channels_{to.shift.present() ? to.weight_sum : NdTensor(),
                     to.weight_scale,
                     to.weight_zero,
                     to.bias,
                     to.y_scale,
                     to.y_zero},
      from_rows_{to.scale, to.shift, to.rest},
      shape_{tiles.vector_m, tiles.sum_n},
      acc_(scratch.alloc("acc", shape_, DType::i32)),
      work_(scratch.alloc("a product", shape_, DType::i32)),
      zeros_(scratch.alloc("a row in i32", {1, tiles.sum_n}, DType::i32)),
      channels_(core.ring<of_channels>(
          "of channels",
          {row_form("weight_sum", from_channels_[weight_sum], tiles.sum_n),
           row_form("weight_scale", to.weight_scale, tiles.sum_n), row_form("weight_zero", to.weight_zero, tiles.sum_n),
           row_form("bias", to.bias, tiles.sum_n), row_form("y_scale", to.y_scale, 2),
           row_form("y_zero", to.y_zero, 2)},
          {to.shadow.present() ? 1u : 2u, Pipe::load_vector, Pipe::vector})),
      rows_(core.ring<of_rows>(
          "of rows",
          {column_form("scale", to.scale, tiles.vector_m), column_form("shift", to.shift, tiles.vector_m),
           column_form("rest", to.rest, tiles.vector_m)},
          {to.shadow.present() ? 1u : 2u, Pipe::load_vector, Pipe::vector})),
      out_(core.ring("y", Space::vector, shape_, to.y.first.dtype, {2, Pipe::vector, Pipe::store})) {
  if (shadow_.present())
    shadows_.emplace(core.ring("shadow", Space::vector, shape_, DType::f32, {2, Pipe::load_vector, Pipe::vector}));
}

// One for each channel, or one for all.
void Int8Epilogue::load(const Sums& sums) {
  const index m = sums.tile.rows(), n = sums.tile.columns();
  const auto to_channels = channels_.acquire();
  for (std::size_t i = 0; i < of_channels; ++i) {
    const NdTensor& from = from_channels_[i];
    if (!from.present()) continue;
    const index count = from.extent(0) == 1 ? 1 : n;
    const NdTensor part = from.extent(0) == 1 ? from : from.slice(0, sums.column, n);
    core_.copy(by_axes(to_channels[i].slice(0, 1, 0, count)).at(0, 0), part);
  }
  channels_.commit();
  const auto to_rows = rows_.acquire();
  for (std::size_t i = 0; i < of_rows; ++i) {
    if (!from_rows_[i].present()) continue;
    NdTensor part = from_rows_[i];
    if (part.extent(0) == 1)
      part.extents[0] = m, part.strides[0] = 0;
    else
      part = part.slice(0, sums.row, m);
    core_.copy(by_axes(to_rows[i].slice(0, m, 0, 1)).at(1, 0), part);
  }
  rows_.commit();
  channel_ = channels_.wait();
  row_ = rows_.wait();
  for (std::size_t i = 0; i < of_channels; ++i)
    if (from_channels_[i].present()) channel_[i] = channel_[i].slice(0, 1, 0, from_channels_[i].extent(0) == 1 ? 1 : n);
  for (Tensor& column : row_) column = column.slice(0, std::min(m, column.rows()), 0, 1);
}

// The sums themselves where neither side has zero points; else `acc`.
Tensor Int8Epilogue::exact(const Tensor& acc, const Tensor& work, const Tensor& sums) {
  Tensor left = sums;
  if (from_rows_[shift].present()) {
    core_.vbroadcast_row(work, channel_[weight_sum]);
    core_.vbinary(VectorOp::mul, work, work, row_[shift]);
    core_.vbinary(VectorOp::sub, acc, left, work);
    left = acc;
  }
  if (from_rows_[rest].present()) {
    const Tensor zeros = zeros_.slice(0, 1, 0, channel_[weight_zero].columns());
    core_.vcast(zeros, channel_[weight_zero]);
    core_.vbroadcast_row(work, zeros);
    core_.vbinary(VectorOp::mul, work, work, row_[rest]);
    core_.vbinary(VectorOp::sub, acc, left, work);
    left = acc;
  }
  return left;
}

void Int8Epilogue::scaled(const Tensor& y, const Tensor& work, const Sums& sums) {
  const index m = y.rows(), n = y.columns();
  if (shadows_) {
    core_.copy(shadows_->acquire().slice(0, m, 0, n), shadow_.slice(sums.row, m, sums.column, n));
    shadows_->commit();
    core_.vbinary(VectorOp::add, y, y, shadows_->wait().slice(0, m, 0, n));
    shadows_->release();
  }
  core_.vbroadcast_row(work, channel_[weight_scale]);
  core_.vbinary(VectorOp::mul, work, work, row_[scale]);
  core_.vbinary(VectorOp::mul, y, y, work);
  if (from_channels_[bias].present()) core_.vbinary(VectorOp::add, y, y, channel_[bias]);
}

void Int8Epilogue::requantized(const Tensor& whole, const Tensor& y) {
  constexpr std::int32_t far = 1 << 20;  // beyond all that saturates
  core_.vbinary(VectorOp::div, y, y, channel_[y_scale]);
  core_.vcast(whole, y);
  core_.vscalar(VectorOp::max, whole, whole, -far);
  core_.vscalar(VectorOp::min, whole, whole, far);
  if (!from_channels_[y_zero].present()) return;
  const Tensor zero = zeros_.slice(0, 1, 0, 1);
  core_.vcast(zero, channel_[y_zero]);
  core_.vbinary(VectorOp::add, whole, whole, zero);
}

void Int8Epilogue::operator()(const Sums& sums) {
  const index m = sums.tile.rows(), n = sums.tile.columns();
  const Tensor acc = acc_.slice(0, m, 0, n), work = work_.slice(0, m, 0, n);
  load(sums);
  const Tensor whole_sums = exact(acc, work, sums.tile);
  const bool raw = y_.first.dtype == DType::i32, whole = from_channels_[y_scale].present();
  const Tensor y = as(work, DType::f32);
  if (!raw) {
    core_.vcast(y, whole_sums);
    scaled(y, as(acc, DType::f32), sums);
  }
  if (whole) requantized(acc, y);
  channels_.release();
  rows_.release();
  core_.vcast(out_.acquire().slice(0, m, 0, n), raw ? whole_sums : whole ? acc : y);
  out_.commit();
  core_.copy(y_.slice(0, sums.row, m).slice(1, sums.column, n), by_axes(out_.wait().slice(0, m, 0, n)));
  out_.release();
}

}  // namespace inlay::npu
