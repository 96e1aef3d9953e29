// model.safetensors.index.json: which file of a checkpoint each of its tensors lies in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec {

class HfIndex {
 public:
  struct Place {
    std::string_view shard, tensor;
    auto operator<=>(const Place&) const = default;
  };

  HfIndex() = default;  // of nothing
  static Expected<HfIndex> read(const std::string& path);

  // Sorted: shard by shard.
  std::span<const Place> places() const { return places_; }

  // Empty where no shard is said to have it.
  std::string_view shard_of(std::string_view tensor) const;

 private:
  std::vector<Place> places_;
  std::vector<std::uint32_t> by_tensor_;  // the same sorted by the tensor's name
  std::shared_ptr<const void> texts_;     // keeps what they look at
};

}  // namespace inlay::exec
