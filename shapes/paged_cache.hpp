// A pool of blocks in the layouts that are in use (inlay/core/paged_kv.hpp), at some size.
#pragma once

#include <inlay/core/paged_kv.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

enum class CacheLayout { flat, head_major, vllm, in_pieces };  // in pieces: values as vLLM's keys, too

struct PagedCacheShape {
  index blocks = 1024, block = 16, heads = 8, dim = 128;
  DType type = DType::f16;
  CacheLayout layout = CacheLayout::flat;

  void read(auto& from) {
    from.size("blocks", blocks), from.size("block", block), from.size("heads", heads), from.size("dim", dim);
    from.type("cache", type), from.word("layout", layout, {"flat", "head_major", "vllm"});
  }
  PagedView<> keys(Tensors& tensors) const { return pool(tensors, true); }
  PagedView<> values(Tensors& tensors) const { return pool(tensors, false); }
  // Beside int8.
  View<3> scales(Tensors& tensors) const {
    if (type != DType::i8) return {};
    return tensors.inout(DType::f32, {blocks, heads, block}, {{0.002, 0.02}});
  }

 private:
  PagedView<> pool(Tensors& tensors, bool is_keys) const {
    const index x = std::min(dim, vllm_key_x(type));
    if (layout == CacheLayout::flat) return flat_cache(tensors.inout(type, {blocks, block, heads, dim}));
    if (layout == CacheLayout::head_major) return head_major_cache(tensors.inout(type, {blocks, heads, block, dim}));
    if (layout == CacheLayout::vllm && !is_keys)
      return slot_minor_cache(tensors.inout(type, {blocks, heads, dim, block}));
    return tensors.inout(type, {blocks, heads, dim / x, block, x});
  }
};

}  // namespace inlay
