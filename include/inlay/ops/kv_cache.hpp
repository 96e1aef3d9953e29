// Three operators write a paged KV cache (core/paged_kv.hpp draws the layouts and names the views).
//
//   ReshapeAndCache   k_cache[slot[t], h, :] = key[t, h, :]     value likewise
//   CopyBlocks        cache[target, ...] = cache[source, ...]      for each (source, target)
//   SwapBlocks        target[j, ...] = source[i, ...]              for each (i, j); two pools
//
// ReshapeAndCache converts to the type of the cache, rounding to nearest even; equal types are copied
// bit for bit. An int8 cache gets one scale per token and head, stored beside it:
//
//   scale = max|key[t, h, :]| / 127,    cache = round(key / scale)     (a quotient in f32, ties to even)
//
// A row of zeros has scale 0; a row with NaN or infinity has scale NaN, so that it reads as NaN.
// Tokens with a negative slot are skipped. Of tokens that name one slot the last one stays.
// Slots and pairs out of range are refused before anything is written, and so are pairs whose result would depend on
// their order: a target that occurs twice, in CopyBlocks also one that is a source (of its own pair, too).
#pragma once

#include <algorithm>
#include <vector>

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/paged_kv.hpp>

namespace inlay {

template <class Space = Host> struct ReshapeAndCache {
  ConstView<3, Space> k;             // [tokens, kv_heads, key_dim]    f32 f16 bf16; part of a fused row as strides
  ConstView<3, Space> v = {};        // [tokens, kv_heads, value_dim]  optional with v_cache; k's type
  PagedView<Space> k_cache;          // [blocks, kv_heads, key_dim / x, block_size, x]    f32 f16 bf16 i8
  PagedView<Space> v_cache = {};     // [blocks, kv_heads, value_dim / x, block_size, x]  k_cache's type
  ConstView<1, Space> slot_mapping;  // [tokens] i64; negative: skip
  View<3, Space> k_scale = {};       // [blocks, kv_heads, block_size] f32; with an i8 cache only
  View<3, Space> v_scale = {};       // [blocks, kv_heads, block_size] f32

  static constexpr std::string_view name = "reshape_and_cache";
  static constexpr auto fields = FieldList{in("k", &ReshapeAndCache::k),
                                           optional_in("v", &ReshapeAndCache::v),
                                           inout("k_cache", &ReshapeAndCache::k_cache),
                                           optional_out("v_cache", &ReshapeAndCache::v_cache),
                                           in("slot_mapping", &ReshapeAndCache::slot_mapping),
                                           optional_out("k_scale", &ReshapeAndCache::k_scale),
                                           optional_out("v_scale", &ReshapeAndCache::v_scale)};
};

template <class Space = Host> struct CopyBlocks {
  PagedView<Space> k_cache;       // [blocks, kv_heads, groups, block_size, x]  f32 f16 bf16 i8
  PagedView<Space> v_cache = {};  // as many blocks; its own shape and type
  View<3, Space> k_scale = {};    // [blocks, kv_heads, block_size] f32
  View<3, Space> v_scale = {};    // [blocks, kv_heads, block_size] f32
  ConstView<2, Space> pairs;      // [pairs, 2] i64: source, target; no target occurs twice, nor as a source

  static constexpr std::string_view name = "copy_blocks";
  static constexpr auto fields =
      FieldList{inout("k_cache", &CopyBlocks::k_cache), optional_out("v_cache", &CopyBlocks::v_cache),
                optional_out("k_scale", &CopyBlocks::k_scale), optional_out("v_scale", &CopyBlocks::v_scale),
                in("pairs", &CopyBlocks::pairs)};
};

// One tensor at a time: keys, values, or scales as scales_cache(). Host to device and back, or within
// one space.
template <class Source = Host, class Target = Source> struct SwapBlocks {
  ConstPagedView<Source> source;  // [source blocks, kv_heads, groups, block_size, x]  f32 f16 bf16 i8
  PagedView<Target> target;       // [target blocks, ...]  source's type and, but for the blocks, its shape
  ConstView<2> pairs;             // [pairs, 2] i64: block of source, block of target; no target twice

  static constexpr std::string_view name = "swap_blocks";
  static constexpr auto fields = FieldList{in("source", &SwapBlocks::source), inout("target", &SwapBlocks::target),
                                           in("pairs", &SwapBlocks::pairs)};
};

namespace detail {

INLAY_HIDDEN inline constexpr DTypes cache_types{DType::f32, DType::f16, DType::bf16, DType::i8};

inline namespace INLAY_UNIT_ISA {

// "" or what is wrong with slot_mapping, going on from its name.
inline Text wrong_slot(const ConstView<1>& slots, index limit) {
  for (index t = 0; t < slots.extents[0]; ++t)
    if (const index slot = slots.as<std::int64_t>()[t * slots.strides[0]]; slot >= limit)
      return "[" + number(t) + "] is " + number(slot) + "; it must be below " + number(limit) +
             ", the slots of k_cache, or negative to skip the token";
  return {};
}

inline Text wrong_pair(const ConstView<2>& pairs, index sources, index targets, bool one_pool) {
  const auto entry = [&](index i, index side) {
    return pairs.as<std::int64_t>()[i * pairs.strides[0] + side * pairs.strides[1]];
  };
  // So many pairs cannot all have targets of their own: what is wrong is found among the first.
  const index count = std::min(pairs.extents[0], targets + 1);
  std::vector<index> written;
  for (index i = 0; i < count; ++i) {
    for (index side = 0; side < 2; ++side)
      if (const index block = entry(i, side); block < 0 || block >= (side ? targets : sources))
        return "[" + number(i) + "] has the " + (side ? "target " : "source ") + number(block) + "; it must be in 0.." +
               number((side ? targets : sources) - 1);
    written.push_back(entry(i, 1));
  }
  // With an order of this unit's: without one it is the same function in all of them.
  std::sort(written.begin(), written.end(), [](index a, index b) { return a < b; });
  if (const auto twice = std::adjacent_find(written.begin(), written.end()); twice != written.end())
    return " has the target " + number(*twice) + " twice; a block must be written once";
  for (index i = 0; one_pool && i < count; ++i)
    if (std::binary_search(written.begin(), written.end(), entry(i, 0)))
      return "[" + number(i) + "] has the source " + number(entry(i, 0)) +
             ", which is a target too; the copies must not depend on their order";
  return {};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace detail

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const ReshapeAndCache<Space>& op) {
  const index tokens = op.k.extents[0];
  const auto& keys = op.k_cache;
  const auto& values = op.v_cache;
  const bool quantized = keys.dtype == DType::i8;
  Check checked(op);
  checked.dtype(op.k, floats)
      .same_dtype(op.v, op.k)
      .together(op.v, values)
      .dtype(keys, detail::cache_types)
      .same_dtype(values, keys)
      .extent(keys, 1, op.k.extents[1])
      .that(head_dim_of(keys) == op.k.extents[2], keys,
            [&] {
              return "has " + number(keys.extents[2]) + " groups of " + number(keys.extents[4]) +
                     "; they must make up " + number(op.k.extents[2]) + ", the dim of k";
            })
      .that(block_size_of(keys) >= 1, keys, "has blocks without slots; it must have at least 1")
      .dtype(op.slot_mapping, DType::i64)
      .extent(op.slot_mapping, 0, tokens)
      .that(op.k_scale.present() == quantized, op.k_scale, "must be given with an i8 cache, and only then")
      .dtype(op.k_scale, DType::f32)
      .shape(op.k_scale, {block_count(keys), kv_head_count(keys), block_size_of(keys)});
  if (values.present()) {
    checked.extent(op.v, 0, tokens)
        .extent(op.v, 1, op.k.extents[1])
        .extent(values, 0, block_count(keys))
        .extent(values, 1, kv_head_count(keys))
        .extent(values, 3, block_size_of(keys))
        .that(head_dim_of(values) == op.v.extents[2], values,
              [&] {
                return "has " + number(values.extents[2]) + " groups of " + number(values.extents[4]) +
                       "; they must make up " + number(op.v.extents[2]) + ", the dim of v";
              })
        .dtype(op.v_scale, DType::f32)
        .same_shape(op.v_scale, op.k_scale);
  }
  checked.that(op.v_scale.present() == (quantized && values.present()), op.v_scale,
               "must be given with an i8 v_cache, and only then");
  Status status = checked;
  if constexpr (std::is_same_v<Space, Host>)
    if (status.ok())
      if (const Text wrong = detail::wrong_slot(op.slot_mapping, slot_count(keys)); !wrong.empty())
        return invalid("slot_mapping" + wrong);
  return status;
}

template <class Space> Status check(const CopyBlocks<Space>& op) {
  const auto& keys = op.k_cache;
  const auto& values = op.v_cache;
  Status status =
      Check(op)
          .dtype(keys, detail::cache_types)
          .dtype(values, detail::cache_types)
          .extent(values, 0, block_count(keys))
          .dtype(op.k_scale, DType::f32)
          .shape(op.k_scale, {block_count(keys), kv_head_count(keys), block_size_of(keys)})
          .that(values.present() || !op.v_scale.present(), op.v_scale, "is given; it must be left out, as v_cache is")
          .dtype(op.v_scale, DType::f32)
          .shape(op.v_scale, {block_count(values), kv_head_count(values), block_size_of(values)})
          .dtype(op.pairs, DType::i64)
          .extent(op.pairs, 1, 2);
  if constexpr (std::is_same_v<Space, Host>)
    if (status.ok())
      if (const Text wrong = detail::wrong_pair(op.pairs, block_count(keys), block_count(keys), true); !wrong.empty())
        return invalid("pairs" + wrong);
  return status;
}

template <class Source, class Target> Status check(const SwapBlocks<Source, Target>& op) {
  const auto& [blocks, heads, groups, block_size, x] = op.source.extents;
  Status status = Check(op)
                      .dtype(op.source, detail::cache_types)
                      .same_dtype(op.target, op.source)
                      .shape(op.target, {op.target.extents[0], heads, groups, block_size, x})
                      .dtype(op.pairs, DType::i64)
                      .extent(op.pairs, 1, 2);
  if (status.ok())
    if (const Text wrong = detail::wrong_pair(op.pairs, blocks, block_count(op.target), false); !wrong.empty())
      return invalid("pairs" + wrong);
  return status;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
