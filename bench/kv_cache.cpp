// Bytes of ReshapeAndCache: a prefill chunk's keys and values are read (f32), the f16 or int8 cache is
// written, which reads its lines first. Llama-3-8B: 8 heads of 128. CopyBlocks reads a block and writes
// one, 2 transfers: who copies whole lines need not read the target's. The limit is memory.
#include <inlay/ops/kv_cache.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

constexpr index heads = 8, dim = 128, block_size = 16;

void reshape(benchmark::State& state, DType cache, bool vllm, index tokens) {
  const index blocks = tokens / block_size, x = vllm_key_x(cache), scaled = cache == DType::i8 ? blocks : 0;
  Operand<3> key(DType::f32, {tokens, heads, dim}), value(DType::f32, {tokens, heads, dim});
  Operand<4> keys(cache, {blocks, block_size, heads, dim}), values(cache, {blocks, block_size, heads, dim});
  Operand<3> k_scale(DType::f32, {scaled, heads, block_size}), v_scale(DType::f32, {scaled, heads, block_size});
  std::vector<std::int64_t> slots(static_cast<std::size_t>(tokens));
  for (index t = 0; t < tokens; ++t) slots[t] = t;
  // The same memory serves both layouts.
  const auto op = [&](index i) {
    const View<4> k = keys.view(i), v = values.view(i);
    ReshapeAndCache<Host> op{
        .k = key.view(i),
        .v = value.view(i),
        .k_cache = vllm ? PagedView<>(k.data, cache, {blocks, heads, dim / x, block_size, x}) : flat_cache(k),
        .v_cache = vllm ? slot_minor_cache(View<4>(v.data, cache, {blocks, heads, dim, block_size})) : flat_cache(v),
        .slot_mapping = ConstView<1>(slots.data(), {tokens})};
    if (cache == DType::i8) op.k_scale = k_scale.view(i), op.v_scale = v_scale.view(i);
    return op;
  };
  const double written = 2.0 * static_cast<double>(byte_size(cache, tokens * heads * dim));
  const double bytes = 2.0 * static_cast<double>(byte_size(DType::f32, tokens * heads * dim)) + 2 * written;
  measure(state, {.bytes = bytes, .written = written}, op, {});  // every slot of the cache is written
}

void copy(benchmark::State& state, index pairs) {
  Operand<4> keys(DType::f16, {2 * pairs, block_size, heads, dim}),
      values(DType::f16, {2 * pairs, block_size, heads, dim});
  std::vector<std::int64_t> list;
  for (index i = 0; i < pairs; ++i) list.insert(list.end(), {i, 2 * pairs - 1 - i});
  const auto op = [&](index i) {
    return CopyBlocks<Host>{.k_cache = flat_cache(keys.view(i)),
                            .v_cache = flat_cache(values.view(i)),
                            .pairs = ConstView<2>(list.data(), {pairs, 2})};
  };
  const double written = 2.0 * static_cast<double>(byte_size(DType::f16, pairs * block_size * heads * dim));
  measure(state, {.bytes = 2 * written, .written = written}, op, {.in_place = true});
}

}  // namespace

void add_all() {
  for (DType cache : {DType::f16, DType::i8})
    for (bool vllm : {false, true})
      add("reshape_and_cache/f32_to_" + std::string(name(cache)) + (vllm ? "/vllm" : "/flat") + "/512x8x128",
          [=](benchmark::State& state) { reshape(state, cache, vllm, 512); });
  add("copy_blocks/f16/64x16x8x128", [](benchmark::State& state) { copy(state, 64); });
}

}  // namespace inlay::bench
