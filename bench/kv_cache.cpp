// Bytes of ReshapeAndCache: a prefill chunk's keys and values are read (f32), the f16 or int8 cache is
// written, which reads its lines first. Llama-3-8B: 8 heads of 128. CopyBlocks reads a block and writes
// one: 3 transfers. The limit is memory.
#include <inlay/ops/kv_cache.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

constexpr index heads = 8, dim = 128, block_size = 16;

void reshape(benchmark::State& state, DType cache, bool vllm, index tokens) {
  const Cpu cpu = bench::cpu();
  const index blocks = tokens / block_size, x = vllm_key_x(cache);
  Operand<3> key(DType::f32, {tokens, heads, dim}), value(DType::f32, {tokens, heads, dim});
  Operand<4> flat_keys(cache, {blocks, block_size, heads, dim}), flat_values(cache, {blocks, block_size, heads, dim});
  Operand<5> vllm_keys(cache, {blocks, heads, dim / x, block_size, x});
  Operand<4> vllm_values(cache, {blocks, heads, dim, block_size});
  Operand<3> key_scales(DType::f32, {blocks, heads, block_size}), value_scales(DType::f32, {blocks, heads, block_size});
  std::vector<std::int64_t> slots(static_cast<std::size_t>(tokens));
  for (index t = 0; t < tokens; ++t) slots[t] = t;
  const auto op = [&](index i) {
    ReshapeAndCache<Host> op{
        .key = key.view(i),
        .value = value.view(i),
        .key_cache = vllm ? vllm_keys.view(i) : flat_cache(flat_keys.view(i)),
        .value_cache = vllm ? slot_minor_cache(vllm_values.view(i)) : flat_cache(flat_values.view(i)),
        .slot_mapping = ConstView<1>(slots.data(), {tokens})};
    if (cache == DType::i8) op.key_scales = key_scales.view(i), op.value_scales = value_scales.view(i);
    return op;
  };
  const double error =
      error_against_reference(cpu, op(0), vllm ? View<4>(vllm_values.view(0)) : flat_values.view(0), 0);
  const double bytes = 2.0 * static_cast<double>(byte_size(DType::f32, tokens * heads * dim) +
                                                 2 * byte_size(cache, tokens * heads * dim));
  measure(state, cpu, {.bytes = bytes}, error, [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i)).ok()); });
}

void copy(benchmark::State& state, index pairs) {
  const Cpu cpu = bench::cpu();
  Operand<4> keys(DType::f16, {2 * pairs, block_size, heads, dim}),
      values(DType::f16, {2 * pairs, block_size, heads, dim});
  std::vector<std::int64_t> list;
  for (index i = 0; i < pairs; ++i) list.insert(list.end(), {i, 2 * pairs - 1 - i});
  const auto op = [&](index i) {
    return CopyBlocks<Host>{.key_cache = flat_cache(keys.view(i)),
                            .value_cache = flat_cache(values.view(i)),
                            .pairs = ConstView<2>(list.data(), {pairs, 2})};
  };
  const double error = error_against_reference(cpu, op(0), keys.view(0), 0);
  const double bytes = 2 * 3.0 * static_cast<double>(byte_size(DType::f16, pairs * block_size * heads * dim));
  measure(state, cpu, {.bytes = bytes}, error, [&](index i) { benchmark::DoNotOptimize(run(cpu, op(i)).ok()); });
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
