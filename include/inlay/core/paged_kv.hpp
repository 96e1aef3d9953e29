// A paged KV cache: a pool of blocks, each with `block_size` slots of kv_heads vectors. A sequence
// owns blocks in any order; its table lists them. Token position p of a sequence lies in
//
//   block table[p / block_size], slot-in-block p % block_size,   slot = block * block_size + in-block
//
// Every layout in use is one view of five dimensions with strides of its own,
//
//   PagedView [blocks, kv_heads, groups, block_size, x]      head_dim = groups * x,  dim = group * x + i
//
//   flat_cache        [blocks, block_size, kv_heads, head_dim]     FlashAttention, vLLM (flash), FlashInfer NHD
//     block: | t0: h0[d0 d1 ..] h1[d0 d1 ..] .. | t1: h0[..] h1[..] .. | ..             groups 1, x = head_dim
//
//   head_major_cache  [blocks, kv_heads, block_size, head_dim]     FlashInfer HND; a batch of BNSD caches
//     block: | h0: t0[d0 d1 ..] t1[d0 d1 ..] .. | h1: t0[..] t1[..] .. | ..             groups 1, x = head_dim
//
//   vLLM's keys       [blocks, kv_heads, head_dim / x, block_size, x], x = 16 bytes     as it is
//     head:  | t0[d0 .. d7] t1[d0 .. d7] .. | t0[d8 .. d15] t1[d8 .. d15] .. | ..        f16: x = 8
//
//   slot_minor_cache  [blocks, kv_heads, head_dim, block_size]     vLLM's values
//     head:  | d0: t0 t1 t2 .. | d1: t0 t1 t2 .. | ..                                   groups = head_dim, x = 1
//
// so that one address function, one check and one copy serve them all. Offsets are 64-bit.
#pragma once

#include <algorithm>
#include <string>

#include <inlay/core/inline.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

template <class Space = Host> using PagedView = View<5, Space>;            // [blocks, kv_heads, groups, block_size, x]
template <class Space = Host> using ConstPagedView = ConstView<5, Space>;  // the same, read only

inline namespace INLAY_UNIT_ISA {

// [blocks, block_size, kv_heads, head_dim]
template <template <int, class> class V, class Space> INLAY_INLINE V<5, Space> flat_cache(const V<4, Space>& cache) {
  const auto& [blocks, block_size, kv_heads, head_dim] = cache.extents;
  return {cache.data,
          cache.dtype,
          {blocks, kv_heads, 1, block_size, head_dim},
          {cache.strides[0], cache.strides[2], head_dim, cache.strides[1], cache.strides[3]}};
}

// [blocks, kv_heads, block_size, head_dim]
template <template <int, class> class V, class Space> V<5, Space> head_major_cache(const V<4, Space>& cache) {
  const auto& [blocks, kv_heads, block_size, head_dim] = cache.extents;
  return {cache.data,
          cache.dtype,
          {blocks, kv_heads, 1, block_size, head_dim},
          {cache.strides[0], cache.strides[1], head_dim, cache.strides[2], cache.strides[3]}};
}

// [blocks, kv_heads, head_dim, block_size]
template <template <int, class> class V, class Space> V<5, Space> slot_minor_cache(const V<4, Space>& cache) {
  const auto& [blocks, kv_heads, head_dim, block_size] = cache.extents;
  return {cache.data,
          cache.dtype,
          {blocks, kv_heads, head_dim, block_size, 1},
          {cache.strides[0], cache.strides[1], cache.strides[2], cache.strides[3], 1}};
}

// [blocks, kv_heads, block_size]: the scales that lie beside an int8 cache, as a cache of dim 1.
template <template <int, class> class V, class Space> V<5, Space> scales_cache(const V<3, Space>& scales) {
  const auto& [blocks, kv_heads, block_size] = scales.extents;
  return {scales.data,
          scales.dtype,
          {blocks, kv_heads, 1, block_size, 1},
          {scales.strides[0], scales.strides[1], 1, scales.strides[2], 1}};
}

// The x of vLLM's keys: 16 bytes of one token side by side.
constexpr index vllm_key_x(DType type) { return 16 * 8 / bits(type); }

// What a paged view says about itself.
template <class V> constexpr index block_count(const V& cache) { return cache.extents[0]; }
template <class V> constexpr index kv_head_count(const V& cache) { return cache.extents[1]; }
template <class V> constexpr index block_size_of(const V& cache) { return cache.extents[3]; }
template <class V> constexpr index head_dim_of(const V& cache) {
  return saturating_multiply(cache.extents[2], cache.extents[4]);
}
template <class V> constexpr index slot_count(const V& cache) {
  return saturating_multiply(cache.extents[0], cache.extents[3]);
}

// The element offset of dim 0 of one token of one head; further dims are at group_offset.
template <class V> constexpr index slot_offset(const V& cache, index slot, index head) {
  const index block = slot / block_size_of(cache), in_block = slot - block * block_size_of(cache);
  return block * cache.strides[0] + head * cache.strides[1] + in_block * cache.strides[3];
}
// From dim 0 to dim d of the same token.
template <class V> constexpr index dim_offset(const V& cache, index d) {
  const index x = cache.extents[4];
  return d / x * cache.strides[2] + d % x * cache.strides[4];
}
template <class V> constexpr index paged_offset(const V& cache, index slot, index head, index d) {
  return slot_offset(cache, slot, head) + dim_offset(cache, d);
}

}  // namespace INLAY_UNIT_ISA

// One block of two caches of equal shape as nested runs: the longest pieces that are contiguous in
// both, for copies. Dimensions of extent one vanish, neighbours that follow each other merge.
struct BlockRuns {
  index run = 1;                   // elements side by side
  index count[4] = {1, 1, 1, 1};   // outer loops, slowest first
  index from[4] = {}, to[4] = {};  // their strides in the two caches
};

inline namespace INLAY_UNIT_ISA {

template <class A, class B> [[gnu::always_inline]] constexpr BlockRuns block_runs(const A& a, const B& b) {
  std::size_t order[4] = {1, 2, 3, 4};
  // Slowest first; equal strides cannot be told apart by memory, so their order is free.
  for (int i = 1; i < 4; ++i)
    for (int j = i; j > 0 && a.strides[order[j]] > a.strides[order[j - 1]]; --j) std::swap(order[j], order[j - 1]);
  BlockRuns runs;
  int used = 4;  // loops are filled from the fastest
  for (int i = 3; i >= 0; --i) {
    const std::size_t d = order[i];
    const index extent = a.extents[d], sa = a.strides[d], sb = b.strides[d];
    if (extent == 1) continue;
    if (used == 4 && sa == runs.run && sb == runs.run) {
      runs.run *= extent;
    } else if (used < 4 && sa == runs.from[used] * runs.count[used] && sb == runs.to[used] * runs.count[used]) {
      runs.count[used] *= extent;
    } else {
      --used;
      runs.count[used] = extent;
      runs.from[used] = sa;
      runs.to[used] = sb;
    }
  }
  return runs;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
