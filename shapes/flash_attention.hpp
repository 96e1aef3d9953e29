// A prompt, or a part of one behind other keys, at some size.
#pragma once

#include <inlay/ops/flash_attention.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct FlashAttentionShape {
  index batch = 1, queries = 1024, keys = queries, heads = 8, kv_heads = 2, dim = 128;
  DType type = DType::f16, cache = DType::f16;
  bool causal = true;
  AttentionCompute compute = AttentionCompute::exact_float;

  void read(auto& from) {
    from.size("batch", batch), from.size("queries", queries), from.size("keys", keys = queries);
    from.size("heads", heads), from.size("kv_heads", kv_heads), from.size("dim", dim);
    from.type("type", type), from.type("cache", cache), from.flag("causal", causal);
  }
  FlashAttention<Host> make(Tensors& tensors) const {
    FlashAttention<Host> op{.q = tensors.kept(type, {batch, queries, heads, dim}),
                            .k = tensors.in(cache, {batch, keys, kv_heads, dim}),
                            .v = tensors.in(cache, {batch, keys, kv_heads, dim}),
                            .out = tensors.kept_out(type, {batch, queries, heads, dim}),
                            .causal = causal,
                            .compute = compute};
    if (cache == DType::i8) op.k_scale = op.v_scale = tensors.kept(DType::f32, {1, 1, 1, 1}, {{1.0 / 128, 1.0 / 128}});
    return op;
  }
  // Bytes: K and V, once. Operations: 2 * dim for a score and 2 * dim for its V, for each (query, key) pair that the
  // mask leaves: about half of a prompt's.
  CallCost cost() const {
    const double hidden = causal ? 0.5 * static_cast<double>(queries - 1) : 0;
    const double pairs = static_cast<double>(batch * queries) * (static_cast<double>(keys) - hidden);
    return {.bytes = bytes_of(cache, 2 * batch * keys * kv_heads * dim),
            .flops = 4 * static_cast<double>(heads * dim) * pairs};
  }
};

}  // namespace inlay
