#include "tile_machine/arithmetic/tensor.hpp"

#include <utility>

namespace inlay::npu {

namespace {

Tensor refuse(Tensor tensor, const char* why) {
  tensor.error = why;
  return tensor;
}

std::uint64_t bytes_of(DType dtype, index count) { return static_cast<std::uint64_t>(byte_size(dtype, count)); }

}  // namespace

Tensor Tensor::slice(index row, index rows, index column, index columns) const {
  if (error != nullptr) return *this;
  if (row < 0 || rows < 0 || row + rows > shape.rows) return refuse(*this, "the slice's rows pass the tensor's");
  if (column < 0 || columns < 0 || column + columns > shape.columns)
    return refuse(*this, "the slice's columns pass the tensor's");
  if (flipped) return transposed().slice(column, columns, row, rows).transposed();
  Tensor part = *this;
  part.shape = {rows, columns};
  if (view != none) {  // an origin inside a tensor that is not bound yet
    part.begin += static_cast<std::uint64_t>(row);
    part.pitch += column;
    return part;
  }
  if (layout == Layout::nz) {
    if (column % block != 0) return refuse(*this, "the slice's first column is not the first of a fractal block");
    part.begin += bytes_of(dtype, (column / block * pitch + row) * block);
  } else {
    const index elements = row * pitch + column;
    if (elements * bits(dtype) % 8 != 0) return refuse(*this, "the slice starts in the middle of a byte");
    part.begin += bytes_of(dtype, elements);
  }
  return part;
}

Tensor Tensor::transposed() const {
  Tensor result = *this;
  result.flipped = !flipped;
  std::swap(result.shape.rows, result.shape.columns);
  return result;
}

Tensor Tensor::reshape(Shape other) const {
  if (error != nullptr) return *this;
  if (layout != Layout::nd || flipped || other.rows * other.columns != shape.rows * shape.columns ||
      (shape.rows > 1 && pitch != shape.columns))
    return refuse(*this, "reshape needs the same number of elements, side by side");
  Tensor result = *this;
  result.shape = other;
  result.pitch = other.columns;
  return result;
}

Region Tensor::region() const {
  const index rows = flipped ? shape.columns : shape.rows, columns = flipped ? shape.rows : shape.columns;
  if (rows == 0 || columns == 0) return {begin, 0, 0, 0};
  if (layout == Layout::nz) {
    const auto blocks = static_cast<std::uint64_t>((columns + block - 1) / block);
    const std::uint64_t bytes = bytes_of(dtype, rows * block), stride = bytes_of(dtype, pitch * block);
    return bytes == stride ? Region{begin, 1, blocks * bytes, 0} : Region{begin, blocks, bytes, stride};
  }
  const std::uint64_t bytes = bytes_of(dtype, columns), stride = bytes_of(dtype, pitch);
  const auto runs = static_cast<std::uint64_t>(rows);
  return runs == 1 || bytes == stride ? Region{begin, 1, runs * bytes, 0} : Region{begin, runs, bytes, stride};
}

std::uint64_t storage_bytes(const Tensor& tensor) {
  const Region region = tensor.region();
  return region.runs == 0 ? 0 : (region.runs - 1) * region.stride + region.bytes;
}

std::string describe(Shape shape, DType dtype) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.columns) + " " + std::string(name(dtype));
}

std::string describe(const Tensor& tensor) {
  return describe(tensor.shape, tensor.dtype) + " in " + std::string(name(tensor.space));
}

}  // namespace inlay::npu
