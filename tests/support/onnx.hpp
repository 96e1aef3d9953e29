// ONNX backend node tests: a folder of inputs and outputs that others computed. Read where the data
// lies beside the repository (INLAY_NEEDS_DATA).
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/view.hpp>

#include "tests/support/requirements.hpp"

namespace inlay::test {

inline std::string read_file(const std::string& path) {
  std::ifstream file(third_party(path), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A TensorProto with raw data: field 1 dims, 2 data_type, 9 raw_data (onnx.proto).
struct OnnxTensor {
  std::vector<index> dims;
  DType dtype = DType::f32;
  std::string bytes;

  index size() const {
    index product = 1;
    for (index d : dims) product *= d;
    return product;
  }
  double get(index k) const { return load_element(bytes.data(), dtype, k); }
  template <int Rank> ConstView<Rank> view(const std::array<index, Rank>& extents) const {
    return {bytes.data(), dtype, extents};
  }
};

inline OnnxTensor onnx_tensor(const std::string& path) {
  const std::string proto = read_file(path);
  OnnxTensor tensor;
  std::size_t i = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; i < proto.size(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(proto[i++]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  };
  while (i < proto.size()) {
    const std::uint64_t key = varint(), field = key >> 3, wire = key & 7;
    if (wire == 0) {
      const auto value = static_cast<index>(varint());
      if (field == 1) tensor.dims.push_back(value);
      if (field == 2)
        tensor.dtype = value == 1    ? DType::f32
                       : value == 7  ? DType::i64
                       : value == 6  ? DType::i32
                       : value == 9  ? DType::boolean
                       : value == 10 ? DType::f16
                                     : DType::bf16;
    } else if (wire == 2) {
      const std::size_t length = varint(), end = i + length;
      if (field == 9) tensor.bytes = proto.substr(i, length);
      while (field == 1 && i < end) tensor.dims.push_back(static_cast<index>(varint()));
      i = end;
    } else {
      i += wire == 1 ? 8 : 4;
    }
  }
  return tensor;
}

// Input or output k of a node test.
inline OnnxTensor onnx_tensor(const std::string& test, const std::string& which) {
  return onnx_tensor("onnx_node/" + test + "/test_data_set_0/" + which + ".pb");
}

}  // namespace inlay::test
