#include "tools/onnx/tensor.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace inlay::tools {

namespace {

struct TypeName {
  int number;
  const char* name;
  std::optional<DType> dtype;
};

// Numbers beyond 16 are younger than the schema that Debian ships; on the wire they are plain integers.
const TypeName type_names[] = {{1, "FLOAT", DType::f32},
                               {2, "UINT8", DType::u8},
                               {3, "INT8", DType::i8},
                               {4, "UINT16", {}},
                               {5, "INT16", {}},
                               {6, "INT32", DType::i32},
                               {7, "INT64", DType::i64},
                               {8, "STRING", {}},
                               {9, "BOOL", DType::boolean},
                               {10, "FLOAT16", DType::f16},
                               {11, "DOUBLE", {}},
                               {12, "UINT32", {}},
                               {13, "UINT64", {}},
                               {16, "BFLOAT16", DType::bf16},
                               {17, "FLOAT8E4M3FN", {}},
                               {18, "FLOAT8E4M3FNUZ", {}},
                               {19, "FLOAT8E5M2", {}},
                               {20, "FLOAT8E5M2FNUZ", {}},
                               {21, "UINT4", DType::u4},
                               {22, "INT4", DType::i4},
                               {23, "FLOAT4E2M1", {}},
                               {24, "FLOAT8E8M0", {}},
                               {25, "UINT2", {}},
                               {26, "INT2", {}}};

const TypeName* find_type(int number) {
  for (const TypeName& type : type_names)
    if (type.number == number) return &type;
  return nullptr;
}

}  // namespace

std::string onnx_type_name(int number) {
  const TypeName* type = find_type(number);
  return type ? type->name : "type " + std::to_string(number);
}

int onnx_type(DType dtype) {
  for (const TypeName& type : type_names)
    if (type.dtype == dtype) return type.number;
  return 0;
}

Expected<OnnxTensor> read_tensor(const onnx::TensorProto& proto) {
  const TypeName* type = find_type(proto.data_type());
  if (type == nullptr || !type->dtype)
    return failure(StatusCode::unsupported, "no type " + onnx_type_name(proto.data_type()));
  std::vector<index> dims(proto.dims().begin(), proto.dims().end());
  // Before memory is taken: a corrupt shape must not ask for all of it.
  const auto needed = OnnxTensor::bytes_of(*type->dtype, dims);
  if (!needed) {
    const auto largest = std::max_element(dims.begin(), dims.end(), [](index a, index b) {
      return static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b);  // a negative one is the largest
    });
    return failure(StatusCode::corrupt_data, "tensor " + proto.name() + " has a dimension of " +
                                                 std::to_string(*largest) + "; a tensor has at most " +
                                                 std::to_string(largest_tensor) + " elements or bytes");
  }
  const index size = OnnxTensor::size_of(dims);
  const auto bad = [&](std::size_t got) {
    return failure(StatusCode::corrupt_data, "tensor " + proto.name() + " holds " + std::to_string(got) +
                                                 " bytes or numbers; its shape needs " + std::to_string(size));
  };
  const auto bytes = static_cast<std::size_t>(*needed);
  if (proto.has_raw_data()) {
    if (proto.raw_data().size() != bytes) return bad(proto.raw_data().size());
    OnnxTensor tensor(*type->dtype, std::move(dims));
    std::memcpy(tensor.bytes.data(), proto.raw_data().data(), bytes);
    return tensor;
  }
  const auto count = static_cast<std::size_t>(size);
  const auto from = [&](const auto& numbers, auto&& put) -> Expected<OnnxTensor> {
    if (static_cast<std::size_t>(numbers.size()) != count) return bad(static_cast<std::size_t>(numbers.size()));
    OnnxTensor tensor(*type->dtype, std::move(dims));
    for (index i = 0; i < size; ++i) put(tensor, i, numbers[static_cast<int>(i)]);
    return tensor;
  };
  const auto value = [](OnnxTensor& t, index i, auto number) { t.set(i, static_cast<double>(number)); };
  switch (*type->dtype) {
    case DType::f32: return from(proto.float_data(), value);
    case DType::i64:
      return from(proto.int64_data(), [](OnnxTensor& t, index i, std::int64_t number) {
        std::memcpy(t.bytes.data() + i * static_cast<index>(sizeof number), &number, sizeof number);
      });
    case DType::f16:
    case DType::bf16:  // the bits, one number each
      return from(proto.int32_data(), [](OnnxTensor& t, index i, std::int32_t number) {
        const auto half = static_cast<std::uint16_t>(number);
        std::memcpy(t.bytes.data() + 2 * i, &half, sizeof half);
      });
    case DType::i4:
    case DType::u4: {  // a byte of two nibbles in each number
      if (static_cast<std::size_t>(proto.int32_data_size()) != bytes)
        return bad(static_cast<std::size_t>(proto.int32_data_size()));
      OnnxTensor tensor(*type->dtype, std::move(dims));
      for (std::size_t i = 0; i < bytes; ++i)
        tensor.bytes[i] = static_cast<unsigned char>(proto.int32_data(static_cast<int>(i)));
      return tensor;
    }
    default: return from(proto.int32_data(), value);
  }
}

OnnxTensor transposed(const OnnxTensor& x, const std::vector<index>& order) {
  const index rank = x.rank();
  std::vector<index> strides(static_cast<std::size_t>(rank)), dims;
  index step = 1;
  for (index d = rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= x.dims[d];
  }
  for (index d : order) dims.push_back(x.dims[d]);
  OnnxTensor y(x.dtype, dims);
  for (index i = 0; i < y.size(); ++i) {
    index rest = i, from = 0;
    for (index d = rank - 1; d >= 0; --d) {
      from += rest % dims[d] * strides[order[d]];
      rest /= dims[d];
    }
    y.set(i, x.get(from));
  }
  return y;
}

OnnxTensor converted(const OnnxTensor& x, DType type) {
  OnnxTensor y(type, x.dims);
  for (index i = 0; i < x.size(); ++i) y.set(i, x.get(i));
  return y;
}

}  // namespace inlay::tools
