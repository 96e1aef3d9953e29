// Draws from many rows of logits on the processor, a row on each thread: rows of one step have settings of their own,
// so that they are many operators and not one.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/cpu.hpp>
#include <inlay/exec/engine.hpp>

namespace inlay::exec {

class RowSampler {
 public:
  // The tokens that this processor draws from each row alone, bit for bit.
  void operator()(const Cpu& cpu, const View<2>& logits, std::span<Engine::Draw> draws);

 private:
  std::vector<std::vector<std::byte, CacheLineAllocator<std::byte>>> scratch_;  // of each thread
};

}  // namespace inlay::exec
