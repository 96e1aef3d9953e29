// The memory of a model in view of a test.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <inlay/exec/tensors.hpp>

namespace inlay::exec::test {

// Knows all memory that it gave.
class KnownTensors : public HostTensors {
 public:
  template <int Rank> Expected<View<Rank>> make(DType dtype, const std::array<index, Rank>& extents) {
    auto made = HostTensors::make<Rank>(dtype, extents);
    if (made)
      all_.emplace_back(static_cast<std::byte*>(made->data), static_cast<std::size_t>(byte_size(dtype, made->size())));
    return made;
  }
  void fill(int byte) {
    for (const auto memory : all_) std::memset(memory.data(), byte, memory.size());
  }
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes;
    for (const auto memory : all_) bytes.insert(bytes.end(), memory.begin(), memory.end());
    return bytes;
  }

 private:
  std::vector<std::span<std::byte>> all_;
};

}  // namespace inlay::exec::test
