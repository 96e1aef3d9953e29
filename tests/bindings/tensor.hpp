// Tensors as a caller of inlay.h makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bindings/c/inlay.h"

namespace inlay::test {

template <class T> constexpr DLDataType dl_type() {
  if constexpr (std::is_same_v<T, float>)
    return {kDLFloat, 32, 1};
  else
    return {std::is_unsigned_v<T> ? kDLUInt : kDLInt, sizeof(T) * 8, 1};
}

// Values and a DLTensor over them. Not to be moved: the DLTensor points into it.
template <class T> struct CTensor {
  std::vector<int64_t> shape, strides;
  std::vector<T> values;
  DLTensor dl{};

  CTensor(std::vector<int64_t> extents, std::vector<T> elements)
      : shape(std::move(extents)), values(std::move(elements)) {
    dl.data = values.data();
    dl.device.device_type = kDLCPU;
    dl.ndim = static_cast<int32_t>(shape.size());
    dl.dtype = dl_type<T>();
    dl.shape = shape.data();
  }
  CTensor(const CTensor&) = delete;
};

}  // namespace inlay::test
