// Weights that were packed once, in callers' memories: which blocks stand for which weight. A look-up allocates
// nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <unordered_map>

#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

class PackedWeights {
 public:
  std::span<std::byte> find(const WeightForm& weight) const;  // empty: it has not been packed
  // A weight other than this one whose blocks lie in some of `memory`.
  bool holds_another(std::span<const std::byte> memory, const WeightForm& weight) const;
  void add(const WeightForm& weight, std::span<std::byte> memory) { known_.insert_or_assign(weight, memory); }
  void remove(const WeightForm& weight) { known_.erase(weight); }
  std::size_t forget(std::span<const std::byte> memory);

 private:
  struct Hash {
    std::size_t operator()(const WeightForm& weight) const { return std::hash<const void*>()(weight.place); }
  };
  std::unordered_map<WeightForm, std::span<std::byte>, Hash> known_;
};

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b);
std::span<const std::byte> bytes_of(const WeightForm& weight);

}  // namespace inlay::npu
