#include "npu_kernels/backend/features.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
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

Status lacks_global_memory(const Device& device, std::vector<ByteRange> operands) {
  std::sort(operands.begin(), operands.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::uint64_t bytes = 0;
  for (std::ptrdiff_t counted = std::numeric_limits<std::ptrdiff_t>::min(); const ByteRange& each : operands) {
    const std::ptrdiff_t begin = std::max(each.begin, counted);
    if (begin < each.end) bytes += static_cast<std::uint64_t>(each.end - begin);
    counted = std::max(each.end, counted);
  }
  const Memory& memory = device.memories[0];
  if (bytes <= memory.bytes) return {};
  return unsupported(device.name + ": the operands take " + std::to_string(bytes) + " bytes; " + memory.name + " has " +
                     std::to_string(memory.bytes));
}

}  // namespace inlay::npu
