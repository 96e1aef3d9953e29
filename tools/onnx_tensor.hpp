// Tensors of ONNX files as Inlay sees them: dense, row-major, of any rank.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace onnx {
class TensorProto;
}

namespace inlay::tools {

struct OnnxTensor {
  DType dtype = DType::f32;
  std::vector<index> dims;
  std::vector<unsigned char> bytes;

  OnnxTensor() = default;
  OnnxTensor(DType type, std::vector<index> shape)
      : dtype(type), dims(std::move(shape)), bytes(static_cast<std::size_t>(byte_size(type, size())) + 1) {}

  index size() const {
    index product = 1;
    for (index dim : dims) product *= dim;
    return product;
  }
  index rank() const { return static_cast<index>(dims.size()); }
  // Product of the dimensions first..last-1.
  index extent(index first, index last) const {
    index product = 1;
    for (index d = first; d < last; ++d) product *= dims[d];
    return product;
  }
  double get(index i) const { return load_element(bytes.data(), dtype, i); }
  void set(index i, double value) { store_element(bytes.data(), dtype, i, value); }

  // The same bytes in another shape.
  template <int Rank> View<Rank> view(const std::array<index, Rank>& extents) { return {bytes.data(), dtype, extents}; }
  template <int Rank> View<Rank> view(const std::array<index, Rank>& extents, const std::array<index, Rank>& strides) {
    return {bytes.data(), dtype, extents, strides};
  }
  // Rows of the dimensions from `axis` on.
  View<2> rows(index axis) { return view<2>({extent(0, axis), extent(axis, rank())}); }
};

// Elements moved so that dimension order[d] of `x` becomes dimension d.
OnnxTensor transposed(const OnnxTensor& x, const std::vector<index>& order);
// Every element widened and rounded to `type`.
OnnxTensor converted(const OnnxTensor& x, DType type);

// unsupported: a type that Inlay does not have. corrupt_data: not the bytes that type and shape need.
Expected<OnnxTensor> read_tensor(const onnx::TensorProto& proto);
// The name of ONNX's element type: "FLOAT8E4M3FN".
std::string onnx_type_name(int type);
// ONNX's number of a type.
int onnx_type(DType type);

}  // namespace inlay::tools
