// Valid structs of the attention operators and of those that write their cache.
#pragma once

#include <numeric>

#include <inlay/inlay.hpp>

#include "measure/cases/draw.hpp"

namespace inlay::cases {

struct Heads {
  index kv, q, dim, v_dim;
  explicit Heads(Draw& d) : kv(d.between(1, 3)), q(kv * d.between(d.chance(3) ? 0 : 1, 4)) {
    dim = d.pick<index>({1, 7, 8, 16, 17, 33, 64});
    v_dim = d.chance(60) ? dim : d.pick<index>({1, 8, 15, 16, 40});
  }
};

inline DType cache_type(Draw& d) { return d.pick({DType::f32, DType::f16, DType::bf16, DType::i8}); }

template <int Rank> ConstView<Rank> cached(Draw& d, DType type, const std::array<index, Rank>& extents) {
  return type == DType::i8 ? d.in<Rank>(type, extents, -128, 127) : d.in<Rank>(type, extents);
}

// The score's fields that all have in common.
template <class Op> void draw_score(Draw& d, Op& op, const Heads& heads) {
  if (d.chance(20)) op.alibi_slopes = d.in<1>(DType::f32, {heads.q}, 0, 1);
  if (d.chance(20)) op.sinks = d.in<1>(DType::f32, {heads.q});
  if (d.chance(30)) op.scale = static_cast<float>(d.real(-1, 1));
  if (d.chance(20)) op.softcap = static_cast<float>(d.real(0.5, 5));
  if (d.chance(30)) op.window_left = d.pick<index>({0, 1, 5, 64, 1000, largest});
  op.bias_order = d.pick({BiasOrder::scale_bias_softcap, BiasOrder::scale_softcap_bias, BiasOrder::bias_scale_softcap});
}

// Scales of int8 with extents of 1 where one serves all.
inline void draw_antiquant(Draw& d, DType type, const std::array<index, 4>& full, ConstView<4>& scale,
                           ConstView<4>& offset) {
  if (type != DType::i8) return;
  std::array<index, 4> extents = full;
  const bool channels = d.chance(40);
  for (int dimension = 0; dimension < 4; ++dimension)
    if (d.chance(50) || (channels ? dimension < 2 : dimension == 3)) extents[static_cast<std::size_t>(dimension)] = 1;
  scale = d.in<4>(DType::f32, extents, 0.001, 0.02);
  if (d.chance(40)) offset = d.in<4>(DType::f32, extents, -8, 8);
}

inline ConstView<4> draw_bias(Draw& d, const std::array<index, 4>& full) {
  ConstView<4> bias = d.in<4>(
      d.floats(), {d.chance(50) ? 1 : full[0], d.chance(50) ? 1 : full[1], d.chance(50) ? 1 : full[2], full[3]});
  if (!bias.empty() && d.chance(30)) Draw::set(bias, 0, -HUGE_VAL);
  return bias;
}

inline void draw(Draw& d, FlashAttention<Host>& op) {
  const Heads heads(d);
  const index batch = d.chance(3) ? 0 : d.between(1, 3), q_len = d.extent(12), keys = d.extent(70);
  const DType kv = cache_type(d), type = d.floats();
  const bool ragged_q = d.chance(30), paged = d.chance(30), ragged_kv = !paged && d.chance(30);
  const index total_q = ragged_q ? q_len * 2 : q_len;
  op.q = d.in<4>(type, {ragged_q ? 1 : batch, total_q, heads.q, heads.dim});
  if (ragged_q) op.q_indptr = d.indptr(batch, total_q);
  if (paged) {
    const index blocks = d.between(1, 6), block_size = d.between(1, 17), across = d.between(0, 5);
    op.k = cached<4>(d, kv, {blocks, block_size, heads.kv, heads.dim});
    op.block_table = d.indices<2>(DType::i32, {batch, across}, 0, blocks - 1);
    op.kv_lens = d.indices<1>(d.ids(), {batch}, 0, across * block_size);
  } else {
    op.k = cached<4>(d, kv, {ragged_kv ? 1 : batch, keys, heads.kv, heads.dim});
    if (ragged_kv) op.kv_indptr = d.indptr(batch, keys);
    if (!ragged_kv && d.chance(40)) op.kv_lens = d.indices<1>(d.ids(), {batch}, 0, keys);
  }
  std::array<index, 4> v = op.k.extents;
  v[3] = d.chance(15) && heads.v_dim <= heads.dim ? heads.v_dim : v[3];
  if (d.chance(20)) {
    op.v = {op.k.data, kv, v, op.k.strides};  // inside of k
  } else {
    v[3] = heads.v_dim;
    op.v = cached<4>(d, kv, v);
  }
  draw_antiquant(d, kv, op.k.extents, op.k_scale, op.k_offset);
  draw_antiquant(d, kv, op.v.extents, op.v_scale, op.v_offset);
  op.out = d.out<4>(d.floats(), {op.q.extents[0], total_q, heads.q, op.v.extents[3]});
  if (d.chance(50)) op.lse = d.out<3>(DType::f32, {op.q.extents[0], total_q, heads.q});
  if (d.chance(20)) op.q_start = d.in<1>(d.ids(), {batch}, -5, 80);
  const index longest = op.max_kv_len();
  if (d.chance(20)) op.bias = draw_bias(d, {batch, heads.q, total_q, longest});
  if (d.chance(20))
    op.mask = d.in<4>(DType::boolean, {d.chance(50) ? 1 : batch, d.chance(50) ? 1 : heads.q, total_q, longest}, 0, 1);
  if (d.chance(15)) {
    const index bytes = (total_q * longest + 7) / 8;
    std::vector<index> begins;
    for (index b = 0; b <= batch; ++b) begins.push_back(b * bytes);
    op.packed_mask = d.in<1>(DType::u8, {batch * bytes}, 0, 255);
    op.mask_indptr = d.list(d.ids(), begins);
  }
  draw_score(d, op, heads);
  op.causal = d.chance(40);
  if (d.chance(30)) op.compute = AttentionCompute::bf16_products;
  if (d.chance(30)) op.window_right = d.pick<index>({0, 1, 7, 1000, largest});
}

inline void draw(Draw& d, IncreFlashAttention<Host>& op) {
  const Heads heads(d);
  const index batch = d.chance(3) ? 0 : d.between(1, 3), q_len = d.between(1, 3);
  index slots = d.extent(70);
  const DType kv = cache_type(d);
  op.q = d.in<4>(d.floats(), {batch, q_len, heads.q, heads.dim});
  index shortest = slots;
  if (batch > 0 && d.chance(30)) {
    for (auto& list : d.lists) list.clear();
    const index most = slots;
    slots = 0;
    for (index b = 0; b < batch; ++b) {
      const index own = d.between(0, most);
      slots = own > slots ? own : slots;
      shortest = own < shortest ? own : shortest;
      d.lists[0].push_back(cached<3>(d, kv, {own, heads.kv, heads.dim}));
      d.lists[1].push_back(cached<3>(d, kv, {own, heads.kv, heads.v_dim}));
    }
    op.k_list = d.lists[0], op.v_list = d.lists[1];
  } else {
    op.k = cached<4>(d, kv, {batch, slots, heads.kv, heads.dim});
    op.v = cached<4>(d, kv, {batch, slots, heads.kv, heads.v_dim});
  }
  draw_antiquant(d, kv, {batch, slots, heads.kv, heads.dim}, op.k_scale, op.k_offset);
  draw_antiquant(d, kv, {batch, slots, heads.kv, heads.v_dim}, op.v_scale, op.v_offset);
  const bool quantized = d.chance(20);
  op.out = d.out<4>(quantized ? DType::i8 : d.floats(), {batch, q_len, heads.q, heads.v_dim});
  if (quantized) {
    op.out_scale = d.in<2>(DType::f32, {d.chance(50) ? 1 : heads.q, d.chance(50) ? 1 : heads.v_dim}, 10, 200);
    if (d.chance(50)) op.out_offset = d.in<2>(DType::f32, op.out_scale.extents, -20, 20);
  }
  if (d.chance(50)) op.lse = d.out<3>(DType::f32, {batch, q_len, heads.q});
  if (d.chance(50)) op.kv_lens = d.indices<1>(d.ids(), {d.chance(30) ? 1 : batch}, 0, shortest);
  if (d.chance(20)) op.bias = draw_bias(d, {batch, heads.q, q_len, slots});
  if (d.chance(20))
    op.mask = d.in<3>(DType::boolean, {d.chance(50) ? 1 : batch, d.chance(50) ? 1 : q_len, slots}, 0, 1);
  draw_score(d, op, heads);
  op.causal = d.chance(40);
  op.kv_left_padding = d.chance(25);
  op.kv_padding = d.pick<index>({-1, 0, 1, 5, 100, largest});
}

// [blocks, kv_heads, groups, block_size, x] in one of the layouts that core/paged_kv.hpp draws.
struct Pages {
  index blocks, heads, block_size;
};
template <class Make> auto draw_pages(Draw& d, const Pages& pages, index dim, Make&& make) {
  const auto [blocks, heads, block_size] = pages;
  switch (d.below(4)) {
    case 0: return flat_cache(make(std::array<index, 4>{blocks, block_size, heads, dim}));
    case 1: return head_major_cache(make(std::array<index, 4>{blocks, heads, block_size, dim}));
    case 2: return slot_minor_cache(make(std::array<index, 4>{blocks, heads, dim, block_size}));
    default: break;
  }
  const index x = std::gcd(dim, d.pick<index>({4, 8, 16}));
  return make(std::array<index, 5>{blocks, heads, x > 0 ? dim / x : 0, block_size, x});
}
inline ConstPagedView<> read_pages(Draw& d, const Pages& pages, index dim, DType type) {
  return draw_pages(
      d, pages,
      dim, [&]<std::size_t rank>(const std::array<index, rank>& extents) -> ConstView<static_cast<int>(rank)> {
        return cached<static_cast<int>(rank)>(d, type, extents);
      });
}
inline PagedView<> written_pages(Draw& d, const Pages& pages, index dim, DType type) {
  return draw_pages(
      d, pages, dim, [&]<std::size_t rank>(const std::array<index, rank>& extents) -> View<static_cast<int>(rank)> {
        return d.out<static_cast<int>(rank)>(type, extents);
      });
}

inline void draw(Draw& d, PagedAttention<Host>& op) {
  const Heads heads(d);
  const index seqs = d.extent(4), across = d.between(0, 5);
  const Pages pages{d.between(1, 6), heads.kv, d.between(1, 17)};
  const DType kv = cache_type(d);
  op.q = d.in<3>(d.floats(), {seqs, heads.q, heads.dim});
  op.k = read_pages(d, pages, heads.dim, kv);
  op.v = read_pages(d, pages, heads.v_dim, kv);
  op.block_table = d.indices<2>(DType::i32, {seqs, across}, 0, pages.blocks - 1);
  op.kv_lens = d.indices<1>(DType::i32, {seqs}, 0, across * pages.block_size);
  op.out = d.out<3>(d.floats(), {seqs, heads.q, heads.v_dim});
  if (d.chance(50)) op.lse = d.out<2>(DType::f32, {seqs, heads.q});
  if (kv == DType::i8) {
    op.k_tensor_scale = op.v_tensor_scale = 1.0f / 64;
    if (d.chance(50)) {
      op.k_scale = d.in<3>(DType::f32, {pages.blocks, pages.heads, pages.block_size}, 0.1, 1);
      op.v_scale = d.in<3>(DType::f32, op.k_scale.extents, 0.1, 1);
    }
  }
  draw_score(d, op, heads);
  op.partition = d.pick<index>({0, 1, 5, 16, 64, 512, largest});
}

inline void draw(Draw& d, ReshapeAndCache<Host>& op) {
  const Pages pages{d.extent(6), d.between(1, 3), d.between(1, 17)};
  const index tokens = d.extent(20), slots = pages.blocks * pages.block_size, dim = d.extent(70);
  const DType cache = cache_type(d);
  op.k = d.in<3>(d.floats(), {tokens, pages.heads, dim});
  op.k_cache = written_pages(d, pages, dim, cache);
  op.slot_mapping = d.indices<1>(DType::i64, {tokens}, -1, slots - 1);
  const std::array<index, 3> scales{pages.blocks, pages.heads, pages.block_size};
  if (cache == DType::i8) op.k_scale = d.out<3>(DType::f32, scales);
  if (d.chance(30)) return;
  const index v_dim = d.chance(70) ? dim : d.extent(70);
  op.v = d.in<3>(op.k.dtype, {tokens, pages.heads, v_dim});
  op.v_cache = written_pages(d, pages, v_dim, cache);
  if (cache == DType::i8) op.v_scale = d.out<3>(DType::f32, scales);
}

// Each target once; sources from `first_source` on, which targets stay below where they share a pool.
inline ConstView<2> draw_pairs(Draw& d, index first_source, index sources, index targets) {
  std::vector<index> free(static_cast<std::size_t>(targets));
  std::iota(free.begin(), free.end(), index{0});
  const index count = sources > first_source ? d.between(0, targets) : 0;
  ConstView<2> pairs = d.indices<2>(DType::i64, {count, 2}, 0, 0);
  for (index i = 0; i < count; ++i) {
    const auto one = d.below(static_cast<index>(free.size()));
    Draw::set(pairs, 2 * i, static_cast<double>(d.between(first_source, sources - 1)));
    Draw::set(pairs, 2 * i + 1, static_cast<double>(free[static_cast<std::size_t>(one)]));
    free.erase(free.begin() + one);
  }
  return pairs;
}

inline void draw(Draw& d, CopyBlocks<Host>& op) {
  const Pages pages{d.extent(8), d.between(1, 3), d.extent(17)};
  const index dim = d.extent(40);
  op.k_cache = written_pages(d, pages, dim, cache_type(d));
  const std::array<index, 3> scales{pages.blocks, pages.heads, pages.block_size};
  if (d.chance(30)) op.k_scale = d.out<3>(DType::f32, scales);
  if (d.chance(60)) {
    op.v_cache = written_pages(d, pages, d.extent(40), cache_type(d));
    if (d.chance(30)) op.v_scale = d.out<3>(DType::f32, scales);
  }
  const index targets = pages.blocks / 2;
  op.pairs = draw_pairs(d, targets, pages.blocks, targets);
}

inline void draw(Draw& d, SwapBlocks<Host>& op) {
  const Pages pages{d.extent(8), d.between(1, 3), d.extent(17)};
  const index dim = d.extent(40);
  const DType type = cache_type(d);
  const index groups = dim % 4 == 0 ? dim / 4 : 1, x = dim % 4 == 0 ? 4 : dim;
  op.source = cached<5>(d, type, {pages.blocks, pages.heads, groups, pages.block_size, x});
  op.target = d.out<5>(type, {d.extent(8), pages.heads, groups, pages.block_size, x});
  op.pairs = draw_pairs(d, 0, pages.blocks, op.target.extents[0]);
}

}  // namespace inlay::cases
