// What an operator cannot do without: asked before its program is made, which is tried without data (runtime.hpp).
#pragma once

#include <vector>

#include <inlay/core/layout.hpp>

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

// Products of `in`, summed in `sum`, and a way out for the sums. Errors: unsupported, with what the device lacks.
Status lacks_products(const Device& device, DType in, DType sum);

// As much global memory as the operands take; of bytes that several share, once.
Status lacks_global_memory(const Device& device, std::vector<ByteRange> operands);

}  // namespace inlay::npu
