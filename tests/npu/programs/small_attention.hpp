// The attention operators at sizes that take several tiles of small memories: every template, each way through it.
#pragma once

#include <limits>
#include <numeric>

#include <inlay/ops/paged_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/attention/load.hpp"
#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/merge_states.hpp"
#include "tests/npu/programs/small_problems.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::npu {

Program program(GlobalMemory& memory, const MergeStates<Host>& op, const Choices& choices);

namespace test {

// Room for the tiles of both units, a few of them.
inline std::vector<Device> devices_for_attention() {
  std::vector<Device> list = small_devices();
  for (Device& device : list) {
    const bool one = device.same_memory(Space::staging, Space::vector);
    device.memories[device.memory_of[static_cast<std::size_t>(Space::vector)]].bytes = one ? 160 << 10 : 48 << 10;
    if (!one) device.memories[device.memory_of[static_cast<std::size_t>(Space::staging)]].bytes = 64 << 10;
  }
  return list;
}

template <class Op>
Ran run_by(const Device& device, const Options& options, const Op& op, const AttentionTemplate& by,
           NpuActivations activations = NpuActivations::exact) {
  Machine machine(device, options);
  const Program made =
      attend_by(machine, attention_call(machine, attention_problem(op)), {.activations = activations}, by);
  if (!made.body) return ADD_FAILURE() << "the template does not fit " << device.name, Ran{};
  Outcome outcome = machine.run(made.body, made.launch);
  return {std::move(outcome), written_by(op)};
}

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// A prompt, causal, behind `past` keys.
struct Prompt {
  index tokens = 16, heads = 2, cache_heads = 1, dim = 32;
  index past = 0;
  NpuActivations activations = NpuActivations::exact;
  index block_size = 0;  // of a cache in blocks
  bool slopes = false, sinks = false, mask = false, packed_mask = false, bias = false;
  float softcap = 0;
  BiasOrder order = BiasOrder::scale_bias_softcap;
  index spoiled = -1;  // a key whose V is no number
};

inline Ran run_prompt(const Device& device, const Options& options, const Prompt& p, DType type) {
  const index keys = p.past + p.tokens, size = std::max<index>(p.block_size, 1), blocks = keys / size;
  RandomTensors tensors;
  FlashAttention<Host> op = FlashAttentionShape{1, p.tokens, keys, p.heads, p.cache_heads, p.dim, type}.make(tensors);
  if (p.spoiled >= 0) over(op.v).as<f16>()[p.spoiled * p.cache_heads * p.dim + 5] = f16(not_a_number);
  op.out = tensors.out(DType::f32, {1, p.tokens, p.heads, p.dim});
  op.lse = tensors.out(DType::f32, {1, p.tokens, p.heads});
  op.softcap = p.softcap;
  op.bias_order = p.order;
  std::vector<std::int32_t> table(static_cast<std::size_t>(blocks));
  const std::vector<std::int32_t> lengths{static_cast<std::int32_t>(keys)};
  if (p.block_size > 0) {
    for (index i = 0; i < blocks; ++i) table[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(blocks - 1 - i);
    op.k = {op.k.data, op.k.dtype, {blocks, size, p.cache_heads, p.dim}};
    op.v = {op.v.data, op.v.dtype, {blocks, size, p.cache_heads, p.dim}};
    op.block_table = ConstView<2>(table.data(), {1, blocks});
    op.kv_lens = ConstView<1>(lengths.data(), {1});
  }
  const index pairs = p.tokens * keys;
  const auto slopes = values<float>(static_cast<std::size_t>(p.heads), 1, 2, 16), sinks = slopes;
  auto masked = values<std::uint8_t>(static_cast<std::size_t>(pairs), 0, 3, 17);
  for (std::uint8_t& each : masked) each = each == 1;
  const auto bits = values<std::uint8_t>(static_cast<std::size_t>(pairs / 8 + 1), 0, 255, 18);
  const std::vector<std::int32_t> of_bits{0, static_cast<std::int32_t>(bits.size())};
  const auto bias = values<float>(static_cast<std::size_t>(pairs), -2, 2, 19);
  if (p.slopes) op.alibi_slopes = ConstView<1>(slopes.data(), {p.heads});
  if (p.sinks) op.sinks = ConstView<1>(sinks.data(), {p.heads});
  if (p.mask) op.mask = ConstView<4>(masked.data(), DType::boolean, {1, 1, p.tokens, keys});
  if (p.packed_mask) op.packed_mask = ConstView<1>(bits.data(), {static_cast<index>(bits.size())});
  if (p.packed_mask) op.mask_indptr = ConstView<1>(of_bits.data(), {2});
  if (p.bias) op.bias = ConstView<4>(bias.data(), {1, 1, p.tokens, keys});
  return run_by(device, options, op, {}, p.activations);
}

// A token behind a cache of f16.
struct Step {
  index keys = 150, heads = 4, cache_heads = 1, dim = 32;
  AttentionTemplate by = {};
  NpuActivations activations = NpuActivations::exact;
};

inline Ran run_step(const Device& device, const Options& options, const Step& s, DType type) {
  RandomTensors tensors;
  IncreFlashAttention<Host> op = IncreFlashAttentionShape{1, s.heads, s.cache_heads, s.dim, s.keys, type}.make(tensors);
  op.out = tensors.out(DType::f32, {1, 1, s.heads, s.dim});
  op.lse = tensors.out(DType::f32, {1, 1, s.heads});
  return run_by(device, options, op, s.by, s.activations);
}

// A cache of f32, and slopes, on the vector units.
inline Ran run_f32_cache(const Device& device, const Options& options) {
  constexpr index heads = 2;
  RandomTensors tensors;
  IncreFlashAttention<Host> op = IncreFlashAttentionShape{1, heads, 1, 32, 40, DType::f32, DType::f32}.make(tensors);
  op.lse = tensors.out(DType::f32, {1, 1, heads});
  op.alibi_slopes = tensors.in(DType::f32, {heads}, {{1, 2}});
  return run_by(device, options, op, {.matrix = false});
}

// Two tokens over int8 with scales of tokens and of channels, to int8.
inline Ran run_int8(const Device& device, const Options& options) {
  constexpr index keys = 40, rows = 2, dim = 32;
  const auto q = values<float>(rows * dim, -3, 3, 4), scale = values<float>(keys, 1, 3, 5);
  const auto offset = values<float>(dim, -2, 2, 20), out_scale = values<float>(dim, 1, 3, 21);
  const auto k = values<std::int8_t>(keys * dim, -2, 2, 6), v = values<std::int8_t>(keys * dim, -9, 9, 7);
  std::vector<std::int8_t> out(rows * dim);
  const IncreFlashAttention<Host> op{.q = ConstView<4>(q.data(), {1, rows, 1, dim}),
                                     .k = ConstView<4>(k.data(), {1, keys, 1, dim}),
                                     .v = ConstView<4>(v.data(), {1, keys, 1, dim}),
                                     .out = View<4>(out.data(), {1, rows, 1, dim}),
                                     .k_scale = ConstView<4>(scale.data(), {1, keys, 1, 1}),
                                     .v_scale = ConstView<4>(scale.data(), {1, keys, 1, 1}),
                                     .v_offset = ConstView<4>(offset.data(), {1, 1, 1, dim}),
                                     .out_scale = ConstView<2>(out_scale.data(), {1, dim}),
                                     .out_offset = ConstView<2>(offset.data(), {1, dim}),
                                     .causal = true};
  return run_by(device, options, op, {.matrix = false});
}

// Blocks of rows, on both units.
inline Ran run_paged(const Device& device, const Options& options) {
  constexpr index block = 16, blocks = 9, heads = 4, dim = 32;
  const std::vector<std::int32_t> table{7, 2, 0, 5, 1, 8, 3}, lengths{100};
  const auto q = values<f16>(heads * dim, -3, 3, 8);
  const auto k = values<f16>(blocks * block * dim, -2, 2, 9), v = values<f16>(blocks * block * dim, -3, 3, 10);
  std::vector<float> out(heads * dim + heads);
  const PagedAttention<Host> op{.q = ConstView<3>(q.data(), {1, heads, dim}),
                                .k = flat_cache(ConstView<4>(k.data(), {blocks, block, 1, dim})),
                                .v = flat_cache(ConstView<4>(v.data(), {blocks, block, 1, dim})),
                                .block_table = ConstView<2>(table.data(), {1, 7}),
                                .kv_lens = ConstView<1>(lengths.data(), {1}),
                                .out = View<3>(out.data(), {1, heads, dim}),
                                .lse = View<2>(out.data() + heads * dim, {1, heads})};
  return run_by(device, options, op, {});
}

// vLLM's pieces of keys and turned values, which are gathered, in int8 with a scale for each place; sinks.
inline Ran run_pieces(const Device& device, const Options& options) {
  constexpr index block = 4, blocks = 7, sequences = 9, heads = 2, dim = 24, x = 8;
  const auto table = values<std::int32_t>(sequences * 5, 0, blocks - 1, 23);
  const std::vector<std::int32_t> lengths{18, 3, 7, 1, 20, 9, 2, 8, 5};
  const auto q = values<float>(sequences * heads * dim, -3, 3, 8), scales = values<float>(blocks * block, 1, 3, 22);
  const auto k = values<std::int8_t>(blocks * block * dim, -2, 2, 9),
             v = values<std::int8_t>(blocks * block * dim, -3, 3, 10);
  const auto sinks = values<float>(heads, 1, 2, 24);
  std::vector<float> out(sequences * heads * (dim + 1));
  const PagedAttention<Host> op{.q = ConstView<3>(q.data(), {sequences, heads, dim}),
                                .k = ConstView<5>(k.data(), {blocks, 1, dim / x, block, x}),
                                .v = slot_minor_cache(ConstView<4>(v.data(), {blocks, 1, dim, block})),
                                .block_table = ConstView<2>(table.data(), {sequences, 5}),
                                .kv_lens = ConstView<1>(lengths.data(), {sequences}),
                                .out = View<3>(out.data(), {sequences, heads, dim}),
                                .lse = View<2>(out.data() + sequences * heads * dim, {sequences, heads}),
                                .k_scale = ConstView<3>(scales.data(), {blocks, 1, block}),
                                .v_scale = ConstView<3>(scales.data(), {blocks, 1, block}),
                                .sinks = ConstView<1>(sinks.data(), {heads}),
                                .v_tensor_scale = 2};
  return run_by(device, options, op, {.matrix = false});
}

// K and V become blocks of the matrix unit's, more of them than are under way at a time.
inline Ran run_cache_blocks(const Device& device, const Options& options) {
  constexpr index keys = 288, heads = 2, dim = 32, rows = keys;
  const auto k = values<f16>(keys * heads * dim, -2, 2, 25), v = values<f16>(keys * heads * dim, -3, 3, 26);
  std::vector<f16> out(2 * heads * rows * dim);
  Machine machine(device, options);
  AttentionCall problem;
  problem.k = {flat_cache(ConstView<4>(k.data(), {1, keys, heads, dim})), {}, dim};
  problem.v = {flat_cache(ConstView<4>(v.data(), {1, keys, heads, dim})), {}, dim};
  problem.bound.k = bind_cache(machine, "k", problem.k);
  problem.bound.v = bind_cache(machine, "v", problem.v);
  problem.sequences = {{.queries = 1, .keys = keys, .position = keys - 1}};
  const auto blocks = [&](const char* name, std::size_t first) {
    Tensor all = machine.global(name, std::span(out).subspan(first, heads * rows * dim), {heads * rows, dim}, Use::out);
    all.block = device.fractal_block(DType::f16);
    return all;
  };
  const CacheBlocks to{blocks("k in blocks", 0), blocks("v in blocks", heads * rows * dim), {0}, rows, 128};
  Outcome outcome = machine.run([&](Core& core) {
    if (core.runs(Pipe::vector)) make_cache_blocks(core, problem, to);
  });
  return {std::move(outcome), bytes_of(out)};
}

inline std::vector<Problem> small_attention() {
  constexpr auto f16_mode = NpuActivations::f16;
  const auto step = [](Step s, bool wide = false) {
    return [=](const Device& d, const Options& o) { return run_step(d, o, s, wide ? DType::f32 : DType::f16); };
  };
  const auto prompt = [](Prompt p, bool wide = false) {
    return [=](const Device& d, const Options& o) { return run_prompt(d, o, p, wide ? DType::f32 : DType::f16); };
  };
  return {{"incre_flash_attention, f32 q", step({}, true)},
          {"incre_flash_attention, activations f16", step({.activations = f16_mode}, true)},
          {"incre_flash_attention, long", step({.keys = 400}, true)},
          {"incre_flash_attention, one head", step({.keys = 64, .heads = 1, .by = {true, 1}})},
          {"incre_flash_attention, two heads in splits", step({.heads = 2, .by = {true, 2}})},
          {"incre_flash_attention, in splits", step({.by = {true, 2}})},
          {"incre_flash_attention, vectors in splits",
           step({.keys = 64, .heads = 12, .cache_heads = 12, .by = {false, 2}})},
          {"incre_flash_attention, f32 cache", run_f32_cache},
          {"incre_flash_attention, int8", run_int8},
          {"paged_attention", run_paged},
          {"paged_attention, pieces of int8", run_pieces},
          {"flash_attention", prompt({})},
          {"flash_attention, f32 q", prompt({}, true)},
          {"flash_attention, rows of 24", prompt({.dim = 24})},
          {"flash_attention, rows that see no key", prompt({.tokens = 40, .past = -34})},
          {"flash_attention, activations f16", prompt({.past = 100, .activations = f16_mode})},
          {"flash_attention, activations f16, f32 q", prompt({.tokens = 24, .activations = f16_mode}, true)},
          {"flash_attention, in blocks of 16", prompt({.tokens = 32, .block_size = 16})},
          {"flash_attention, slopes, sinks, mask",
           prompt({.tokens = 12, .heads = 8, .slopes = true, .sinks = true, .mask = true})},
          {"flash_attention, mask, softcap", prompt({.mask = true, .softcap = 4})},
          {"flash_attention, bias, packed mask", prompt({.packed_mask = true, .bias = true})},
          {"flash_attention, slopes, bias, softcap",
           prompt({.slopes = true, .bias = true, .softcap = 4, .order = BiasOrder::bias_scale_softcap})},
          {"flash_attention, V that is no number", prompt({.tokens = 8, .spoiled = 5}), true},
          {"flash_attention, V that is no number, mask", prompt({.tokens = 8, .mask = true, .spoiled = 5}), true},
          {"flash_attention, packed K and V", prompt({.tokens = 4, .heads = 48, .past = 20, .activations = f16_mode}),
           true},
          {"flash_attention, packed K and V, activations f16, f32 q",
           prompt({.tokens = 4, .heads = 48, .past = 20, .activations = f16_mode}, true), true},
          {"flash_attention, packed K and V of blocks",
           prompt({.tokens = 4, .heads = 48, .past = 28, .activations = f16_mode, .block_size = 16}), true},
          {"blocks of K and V", run_cache_blocks},
          problem("merge_states", MergeStatesShape{.states = 3, .tokens = 40, .heads = 2, .dim = 32, .has_lse = true})};
}

// An array that brings weights in for few rows: halves of them are rows of one product.
inline Device small_array() {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/systolic32.json"));
  EXPECT_TRUE(device) << device.error().message();
  return small(*std::move(device), 1, {{Space::staging, 96 << 10}, {Space::accumulator, 8 << 10}});
}
inline std::vector<Problem> small_attention_on_an_array() {
  const auto step = [](index heads) {
    return [=](const Device& device, const Options& options) {
      return run_step(device, options, {.keys = 400, .heads = heads}, DType::f16);
    };
  };
  return {{"incre_flash_attention, stacked halves", step(4)},
          {"incre_flash_attention, stacked halves with rows between", step(3)}};
}

}  // namespace test
}  // namespace inlay::npu
