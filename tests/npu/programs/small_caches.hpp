// The cache's operators and greedy sampling at sizes that take several tiles of small memories.
#pragma once

#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/sampling.hpp>

#include "tests/npu/programs/small_problems.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const ReshapeAndCache<Host>&, const Choices&);
Program program(GlobalMemory&, const CopyBlocks<Host>&, const Choices&);
Program program(GlobalMemory&, const Sampling<Host>&, const Choices&);

}  // namespace inlay::npu

namespace inlay::npu::test {

// Codes, and the scales beside them; a long head goes in parts.
template <index dim> Ran run_quantized_cache(const Device& device, const Options& options) {
  constexpr index tokens = 9, heads = 4;
  const auto key = values<float>(tokens * heads * dim, -4, 4, 1);
  const std::vector<std::int64_t> slots = {0, 1, 2, 7, 6, -1, 3, 9, 10};
  std::vector<std::int8_t> cache(3 * 4 * heads * dim);
  std::vector<float> scales(3 * heads * 4);
  const ReshapeAndCache<Host> op{.k = {key.data(), {tokens, heads, dim}},
                                 .k_cache = flat_cache(View<4>(cache.data(), {3, 4, heads, dim})),
                                 .slot_mapping = {slots.data(), {tokens}},
                                 .k_scale = {scales.data(), {3, heads, 4}}};
  Ran ran = run_operator(device, options, op, cache);
  const auto more = bytes_of(scales);
  ran.output.insert(ran.output.end(), more.begin(), more.end());
  return ran;
}

// As it is, and from f32 to f16: several tiles of both.
template <class T> Ran run_cache(const Device& device, const Options& options) {
  constexpr index tokens = 40, heads = 4, dim = 96;
  const auto key = values<T>(tokens * heads * dim, -4, 4, 1);
  std::vector<std::int64_t> slots(tokens);
  for (index t = 0; t < tokens; ++t) slots[static_cast<std::size_t>(t)] = t * 7 % 48;
  std::vector<f16> cache(12 * 4 * heads * dim);
  const ReshapeAndCache<Host> op{.k = {key.data(), {tokens, heads, dim}},
                                 .k_cache = flat_cache(View<4>(cache.data(), {12, 4, heads, dim})),
                                 .slot_mapping = {slots.data(), {tokens}}};
  return run_operator(device, options, op, cache);
}

inline Ran run_turned_cache(const Device& device, const Options& options) {
  constexpr index tokens = 6, heads = 2, dim = 24;
  const auto key = values<float>(tokens * heads * dim, -4, 4, 1);
  const std::vector<std::int64_t> slots = {0, 1, 6, 7, 2, 3};
  std::vector<f16> cache(2 * 4 * heads * dim);
  const ReshapeAndCache<Host> op{.k = {key.data(), {tokens, heads, dim}},
                                 .k_cache = slot_minor_cache(View<4>(cache.data(), {2, heads, dim, 4})),
                                 .slot_mapping = {slots.data(), {tokens}}};
  return run_operator(device, options, op, cache);
}

inline Ran run_copied_blocks(const Device& device, const Options& options) {
  constexpr index blocks = 12, elements = 4 * 2 * 64;
  auto cache = values<f16>(blocks * elements, -4, 4, 1);
  std::vector<std::int64_t> pairs;
  for (index i = 0; i < 6; ++i) pairs.insert(pairs.end(), {i, 6 + i});
  const CopyBlocks<Host> op{.k_cache = flat_cache(View<4>(cache.data(), {blocks, 4, 2, 64})),
                            .pairs = {pairs.data(), {6, 2}}};
  return run_operator(device, options, op, cache);
}

template <bool with_probs> Ran run_greedy(const Device& device, const Options& options) {
  constexpr index rows = 3, vocab = 2500;
  const auto logits = values<float>(rows * vocab, -400, 400, 1);
  std::vector<std::int32_t> tokens(rows);
  std::vector<float> probs(rows * vocab);
  Sampling<Host> op{.logits = {logits.data(), {rows, vocab}}, .tokens = {tokens.data(), {rows}}, .temperature = 0};
  if (with_probs) op.probs = {probs.data(), {rows, vocab}};
  Ran ran = run_operator(device, options, op, tokens);
  const auto more = bytes_of(probs);
  ran.output.insert(ran.output.end(), more.begin(), more.end());
  return ran;
}

inline std::vector<Problem> small_caches() {
  return {{"reshape_and_cache", run_cache<f16>},
          {"reshape_and_cache, f32 to f16", run_cache<float>},
          {"reshape_and_cache to int8", run_quantized_cache<96>},
          {"reshape_and_cache to int8, in parts", run_quantized_cache<1500>},
          {"reshape_and_cache, turned", run_turned_cache},
          {"copy_blocks", run_copied_blocks},
          {"greedy sampling", run_greedy<false>},
          {"greedy sampling, with probs", run_greedy<true>}};
}

}  // namespace inlay::npu::test
