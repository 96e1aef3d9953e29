// What an operator asks for, whatever its program does: the bytes that must come and go at least once, and the
// products that must be made. No program on the device is faster than
//   max(bytes / bandwidth, operations / peak)
#pragma once

#include <cstdint>
#include <vector>

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

struct RooflineWork {
  struct Products {
    DType in = DType::f16, out = DType::f32;
    std::uint64_t operations = 0;  // two for each multiply-add
  };
  std::uint64_t bytes = 0;  // inputs once, outputs once
  std::vector<Products> products{};
};

}  // namespace inlay::npu
