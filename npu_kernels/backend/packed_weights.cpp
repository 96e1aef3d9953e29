#include "npu_kernels/backend/packed_weights.hpp"

#include <algorithm>
#include <functional>

#include <inlay/core/layout.hpp>

namespace inlay::npu {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

std::span<const std::byte> bytes_of(const WeightForm& weight) {
  const ConstView<3> view(weight.place, weight.dtype, weight.extents, weight.strides);
  const ByteRange range = byte_range(view);
  const auto* const place = static_cast<const std::byte*>(weight.place);
  return {place + (range.begin - SpacePointer<Host>::byte_offset(weight.place)),
          static_cast<std::size_t>(range.end - range.begin)};
}

std::span<std::byte> PackedWeights::find(const WeightForm& weight) const {
  const auto found = known_.find(weight);
  return found == known_.end() ? std::span<std::byte>() : found->second;
}

bool PackedWeights::holds_another(std::span<const std::byte> memory, const WeightForm& weight) const {
  return std::any_of(known_.begin(), known_.end(),
                     [&](const auto& one) { return !(one.first == weight) && overlap(one.second, memory); });
}

std::size_t PackedWeights::forget(std::span<const std::byte> memory) {
  return std::erase_if(known_, [&](const auto& one) { return overlap(one.second, memory); });
}

}  // namespace inlay::npu
