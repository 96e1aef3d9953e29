// Keys and values written into a paged cache, and its blocks copied, at some size.
#pragma once

#include <inlay/ops/kv_cache.hpp>

#include "shapes/paged_cache.hpp"

namespace inlay {

struct ReshapeAndCacheShape {
  index tokens = 256;  // into the first slots
  DType type = DType::f16;
  PagedCacheShape cache = {};

  void read(auto& from) { from.size("tokens", tokens), from.type("type", type), cache.read(from); }
  ReshapeAndCache<Host> make(Tensors& tensors) const {
    return {.k = tensors.in(type, {tokens, cache.heads, cache.dim}),
            .v = tensors.in(type, {tokens, cache.heads, cache.dim}),
            .k_cache = cache.keys(tensors),
            .v_cache = cache.values(tensors),
            .slot_mapping = tensors.list(DType::i64, {tokens}, [](index token) { return token; }),
            .k_scale = cache.scales(tensors),
            .v_scale = cache.scales(tensors)};
  }
  CallCost cost() const {
    const index elements = 2 * tokens * cache.heads * cache.dim;
    const double written = bytes_of(cache.type, elements);
    return {.bytes = bytes_of(type, elements) + 2 * written, .written = written};
  }
};

// The first blocks to the last.
inline ConstView<2> block_pairs(Tensors& tensors, index count, index blocks) {
  return tensors.list(DType::i64, {count, 2}, [&](index i) { return i / 2 + (i % 2 == 0 ? 0 : blocks - count); });
}

struct CopyBlocksShape {
  index pairs = 64;
  PagedCacheShape cache = {};

  void read(auto& from) { from.size("pairs", pairs), cache.read(from); }
  CopyBlocks<Host> make(Tensors& tensors) const {
    return {.k_cache = cache.keys(tensors),
            .v_cache = cache.values(tensors),
            .k_scale = cache.scales(tensors),
            .v_scale = cache.scales(tensors),
            .pairs = block_pairs(tensors, pairs, cache.blocks)};
  }
  // A block is read and one is written: who copies whole lines need not read the target's.
  CallCost cost() const {
    const double written = bytes_of(cache.type, 2 * pairs * cache.block * cache.heads * cache.dim);
    return {.bytes = 2 * written, .written = written};
  }
};

struct SwapBlocksShape {
  index pairs = 64;
  PagedCacheShape cache = {};

  void read(auto& from) { from.size("pairs", pairs), cache.read(from); }
  SwapBlocks<Host> make(Tensors& tensors) const {
    return {.source = cache.keys(tensors),
            .target = cache.keys(tensors),
            .pairs = block_pairs(tensors, pairs, cache.blocks)};
  }
};

}  // namespace inlay
