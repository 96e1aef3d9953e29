// A token of each sequence behind its cache, at some size.
#pragma once

#include <inlay/ops/incre_flash_attention.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct IncreFlashAttentionShape {
  index sequences = 4, heads = 32, kv_heads = 8, dim = 128, length = 4096;
  DType type = DType::f16, cache = DType::f16;
  bool is_head_major = false;     // a head's tokens are one run: BNSD
  bool has_token_scales = false;  // of int8: a scale for each token and head, or for each channel

  void read(auto& from) {
    from.size("sequences", sequences), from.size("heads", heads), from.size("kv_heads", kv_heads);
    from.size("dim", dim), from.size("length", length), from.type("type", type), from.type("cache", cache);
  }
  IncreFlashAttention<Host> make(Tensors& tensors) const {
    return {.q = tensors.kept(type, {sequences, 1, heads, dim}),
            .k = rows(tensors),
            .v = rows(tensors),
            .out = tensors.kept_out(type, {sequences, 1, heads, dim}),
            .k_scale = scales(tensors),
            .v_scale = scales(tensors)};
  }
  // K and V, once: 4 operations for each pair of elements that all heads of a group share.
  CallCost cost() const {
    const index elements = 2 * sequences * length * kv_heads * dim;
    return {.bytes = bytes_of(cache, elements), .flops = 2 * static_cast<double>(elements * (heads / kv_heads))};
  }

 private:
  ConstView<4> rows(Tensors& tensors) const {
    if (!is_head_major) return tensors.in(cache, {sequences, length, kv_heads, dim});
    const auto all = tensors.in(cache, {sequences, kv_heads, length, dim});
    const auto& [of_sequence, of_head, of_token, of_element] = all.strides;
    return {all.data, all.dtype, {sequences, length, kv_heads, dim}, {of_sequence, of_token, of_head, of_element}};
  }
  ConstView<4> scales(Tensors& tensors) const {
    constexpr Tensors::Range step{1.0 / 128, 1.0 / 128};
    if (cache != DType::i8) return {};
    if (has_token_scales) return tensors.kept(DType::f32, {sequences, length, kv_heads, 1}, step);
    return tensors.kept(DType::f32, {1, 1, kv_heads, dim}, step);
  }
};

}  // namespace inlay
