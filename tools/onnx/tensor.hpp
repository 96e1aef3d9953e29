// Tensors of ONNX files as Inlay sees them: dense, row-major, of any rank.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace onnx {
class TensorProto;
}

namespace inlay::tools {

// Files of a kilobyte can ask for terabytes: of a tensor that has no elements, or as the product of two. What a tensor
// may have, and what takes more throws; run_node makes a Status of it.
inline constexpr index largest_tensor = index{1} << 28;  // elements, and bytes
struct TooBig {};

struct OnnxTensor {
  DType dtype = DType::f32;
  std::vector<index> dims;
  std::vector<unsigned char> bytes;

  OnnxTensor() = default;
  OnnxTensor(DType type, std::vector<index> shape)
      : dtype(type), dims(std::move(shape)), bytes(bytes_or_throw(type, dims) + 1) {}

  index size() const { return size_of(dims); }
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

  // Elements of a shape that a tensor may have.
  static index size_of(const std::vector<index>& dims) {
    index product = 1;
    for (index dim : dims) product *= dim;
    return product;
  }
  // Its bytes; nothing where no tensor may have it. Dimensions beside one of 0 are bounded too: loops run over them.
  static std::optional<index> bytes_of(DType type, const std::vector<index>& dims) {
    index product = 1;
    bool empty = false;
    for (index dim : dims) {
      if (dim < 0 || (dim > 0 && product > largest_tensor / dim)) return {};
      product *= std::max<index>(dim, 1);
      empty |= dim == 0;
    }
    const index bytes = empty ? 0 : byte_size(type, product);
    return bytes > largest_tensor ? std::nullopt : std::optional(bytes);
  }

 private:
  static std::size_t bytes_or_throw(DType type, const std::vector<index>& dims) {
    const auto bytes = bytes_of(type, dims);
    if (!bytes) throw TooBig{};
    return static_cast<std::size_t>(*bytes);
  }
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
