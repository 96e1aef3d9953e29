#include "npu_kernels/backend/features.hpp"

#include <string>

namespace inlay::npu {

Status lacks_products(const Device& device, DType in, DType sum) {
  if (device.rate(in, sum) == nullptr)
    return unsupported(device.name + " has no products of " + std::string(name(in)) + " summed in " +
                       std::string(name(sum)) + ": its description has no such matrix rate");
  if (device.path(Space::accumulator, Space::vector) == nullptr &&
      device.path(Space::accumulator, Space::global) == nullptr)
    return unsupported(device.name + " has no path from its accumulators to another memory");
  return {};
}

}  // namespace inlay::npu
