// The cache's operators and greedy sampling at sizes that take several tiles of small memories.
#pragma once

#include "shapes/kv_cache.hpp"
#include "shapes/sampling.hpp"
#include "tests/npu/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const ReshapeAndCache<Host>&, const Choices&);
Program program(GlobalMemory&, const CopyBlocks<Host>&, const Choices&);
Program program(GlobalMemory&, const Sampling<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

// One tensor alone, which lies as values do, into these slots.
struct RowsIntoSlots {
  DType type;
  PagedCacheShape cache;
  std::vector<index> slots;

  ReshapeAndCache<Host> make(Tensors& tensors) const {
    const auto tokens = static_cast<index>(slots.size());
    return {
        .k = tensors.in(type, {tokens, cache.heads, cache.dim}),
        .k_cache = cache.values(tensors),
        .slot_mapping = tensors.list(DType::i64, {tokens}, [&](index t) { return slots[static_cast<std::size_t>(t)]; }),
        .k_scale = cache.scales(tensors)};
  }
};
struct RowsOfBlocks {
  CopyBlocks<Host> make(Tensors& tensors) const {
    return {.k_cache = PagedCacheShape{12, 4, 2, 64}.keys(tensors), .pairs = block_pairs(tensors, 6, 12)};
  }
};

inline std::vector<Problem> small_caches() {
  constexpr DType f32 = DType::f32, f16 = DType::f16;
  // Several tiles of both types.
  const auto many = [](DType type) {
    RowsIntoSlots shape{type, {12, 4, 4, 96}, {}};
    for (index t = 0; t < 40; ++t) shape.slots.push_back(t * 7 % 48);
    return shape;
  };
  // Codes, and the scales beside them; a long head goes in parts.
  const auto codes = [](index dim) {
    return RowsIntoSlots{f32, {3, 4, 4, dim, DType::i8}, {0, 1, 2, 7, 6, -1, 3, 9, 10}};
  };
  const PagedCacheShape turned{2, 4, 2, 24, f16, CacheLayout::vllm};
  return {problem("reshape_and_cache", many(f16)),
          problem("reshape_and_cache, f32 to f16", many(f32)),
          problem("reshape_and_cache to int8", codes(96)),
          problem("reshape_and_cache to int8, in parts", codes(1500)),
          problem("reshape_and_cache, turned", RowsIntoSlots{f32, turned, {0, 1, 6, 7, 2, 3}}),
          problem("copy_blocks", RowsOfBlocks{}),
          problem("greedy sampling", SamplingShape{.rows = 3, .vocab = 2500}),
          problem("greedy sampling, with probs", SamplingShape{.rows = 3, .vocab = 2500, .has_probs = true})};
}

}  // namespace inlay::npu::test
