#include "npu_kernels/backend/features.hpp"

#include <algorithm>
#include <vector>

#include "npu_kernels/backend/descriptions.hpp"

namespace inlay::npu {

std::string features_of(const Device& device) {
  std::string text;
  const auto add = [&](auto... each) { (text.append(std::to_string(static_cast<int>(each))).append(" "), ...); };
  const auto next = [&](char what) { text.append(1, what).append(" "); };
  for (const std::uint8_t memory : device.memory_of) add(memory);
  for (const Stream& stream : device.streams) add(stream.queues.size(), stream.memories.size());
  next('p');
  for (const Path& path : device.paths) add(path.from, path.to, path.nd2nz.legal, path.turn.legal);
  next('r');
  for (const MatrixRate& rate : device.matrix.rates) add(rate.in, rate.out);
  next('d');
  for (const DrainForm& form : device.matrix.drain) add(form.from, form.to, form.scales, form.bias);
  add(device.matrix.right);
  next('v');
  for (const VectorCost& cost : device.vector.cost) add(cost.available);
  return text;
}

bool has_known_features(const Device& device) {
  static const std::vector<std::string> ours = [] {
    std::vector<std::string> all;
    for (const Description& description : descriptions())
      if (const auto one = parse_device(description.text)) all.push_back(features_of(*one));
    return all;
  }();
  return std::find(ours.begin(), ours.end(), features_of(device)) != ours.end();
}

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
