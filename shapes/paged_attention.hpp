// A token of each sequence behind its blocks of a paged cache, at some size.
#pragma once

#include <inlay/ops/paged_attention.hpp>

#include "shapes/paged_cache.hpp"

namespace inlay {

struct PagedAttentionShape {
  index sequences = 4, heads = 32, kv_heads = 8, dim = 128, block = 16, length = 4096;
  DType type = DType::f16, cache = DType::f16;
  CacheLayout layout = CacheLayout::flat;
  index partition = 512;

  void read(auto& from) {
    from.size("sequences", sequences), from.size("heads", heads), from.size("kv_heads", kv_heads);
    from.size("dim", dim), from.size("block", block), from.size("length", length);
    from.type("type", type), from.type("cache", cache);
  }
  PagedAttention<Host> make(Tensors& tensors) const {
    const index columns = (length + block - 1) / block, blocks = saturating_multiply(columns, sequences);
    const index apart = blocks % 7919 == 0 ? 1 : 7919;  // an order that no two neighbours keep
    const PagedCacheShape pool{blocks, block, kv_heads, dim, cache, layout};
    return {.q = tensors.kept(type, {sequences, heads, dim}),
            .k = pool.keys(tensors),
            .v = pool.values(tensors),
            .block_table = tensors.list(DType::i32, {sequences, columns}, [&](index i) { return i * apart % blocks; }),
            .kv_lens = tensors.list(DType::i32, {sequences}, [&](index) { return length; }),
            .out = tensors.kept_out(type, {sequences, heads, dim}),
            .k_scale = pool.scales(tensors),
            .v_scale = pool.scales(tensors),
            .partition = partition};
  }
  // Each visible key and value once; everything else is small. 4 flops an element and query head of its group.
  CallCost cost() const {
    const index elements = 2 * sequences * length * kv_heads * dim;
    return {.bytes = bytes_of(cache, elements), .flops = 2 * static_cast<double>(elements * (heads / kv_heads))};
  }
};

}  // namespace inlay
