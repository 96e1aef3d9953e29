// The mutation suite over the attention operators' programs: four stages with q in halves and in splits of the
// vectors, blocks through a table, rows that see different keys, int8 on the vector units, and the merge of states.
#include <iostream>

#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/merge_states.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "npu_kernels/backend/program.hpp"
#include "tests/machine/check/mutate.hpp"

namespace inlay::npu {

Program program(GlobalMemory& memory, const IncreFlashAttention<Host>& op, const Choices& choices);
Program program(GlobalMemory& memory, const PagedAttention<Host>& op, const Choices& choices);
Program program(GlobalMemory& memory, const FlashAttention<Host>& op, const Choices& choices);
Program program(GlobalMemory& memory, const MergeStates<Host>& op, const Choices& choices);

namespace test {
namespace {

constexpr index heads = 4, dim = 32;

Ran run_decode(const Device& device, const Options& options) {
  constexpr index keys = 150;
  auto q = values<float>(heads * dim, -3, 3, 1);
  const auto k = values<f16>(keys * dim, -2, 2, 2), v = values<f16>(keys * dim, -3, 3, 3);
  std::vector<float> out(heads * dim + heads);  // .. and lse behind it
  const IncreFlashAttention<Host> op{.q = ConstView<4>(q.data(), {1, 1, heads, dim}),
                                     .k = ConstView<4>(k.data(), {1, keys, 1, dim}),
                                     .v = ConstView<4>(v.data(), {1, keys, 1, dim}),
                                     .out = View<4>(out.data(), {1, 1, heads, dim}),
                                     .lse = View<3>(out.data() + heads * dim, {1, 1, heads})};
  return run_operator(device, options, op, out);
}

Ran run_int8(const Device& device, const Options& options) {
  constexpr index keys = 40, rows = 2;
  const auto q = values<float>(rows * dim, -3, 3, 4), scale = values<float>(keys, 1, 3, 5);
  const auto k = values<std::int8_t>(keys * dim, -2, 2, 6), v = values<std::int8_t>(keys * dim, -9, 9, 7);
  std::vector<float> out(rows * dim + rows);
  const IncreFlashAttention<Host> op{.q = ConstView<4>(q.data(), {1, rows, 1, dim}),
                                     .k = ConstView<4>(k.data(), {1, keys, 1, dim}),
                                     .v = ConstView<4>(v.data(), {1, keys, 1, dim}),
                                     .out = View<4>(out.data(), {1, rows, 1, dim}),
                                     .lse = View<3>(out.data() + rows * dim, {1, rows, 1}),
                                     .k_scale = ConstView<4>(scale.data(), {1, keys, 1, 1}),
                                     .v_scale = ConstView<4>(scale.data(), {1, keys, 1, 1}),
                                     .causal = true};
  return run_operator(device, options, op, out);
}

Ran run_paged(const Device& device, const Options& options) {
  constexpr index block = 16, blocks = 9;
  const std::vector<std::int32_t> table{7, 2, 0, 5, 1, 8, 3}, lengths{100};
  const auto q = values<f16>(heads * dim, -3, 3, 8);
  const auto k = values<f16>(blocks * block * dim, -2, 2, 9), v = values<f16>(blocks * block * dim, -3, 3, 10);
  std::vector<float> out(heads * dim + heads);
  const PagedAttention<Host> op{.q = ConstView<3>(q.data(), {1, heads, dim}),
                                .key_cache = flat_cache(ConstView<4>(k.data(), {blocks, block, 1, dim})),
                                .value_cache = flat_cache(ConstView<4>(v.data(), {blocks, block, 1, dim})),
                                .block_tables = ConstView<2>(table.data(), {1, 7}),
                                .context_lens = ConstView<1>(lengths.data(), {1}),
                                .out = View<3>(out.data(), {1, heads, dim}),
                                .lse = View<2>(out.data() + heads * dim, {1, heads})};
  return run_operator(device, options, op, out);
}

Ran run_prefill(const Device& device, const Options& options) {
  constexpr index tokens = 24, group = 2;
  const auto q = values<f16>(tokens * group * dim, -3, 3, 11);
  const auto k = values<f16>(tokens * dim, -2, 2, 12), v = values<f16>(tokens * dim, -3, 3, 13);
  std::vector<float> out(tokens * group * dim + tokens * group);
  const FlashAttention<Host> op{.q = ConstView<4>(q.data(), {1, tokens, group, dim}),
                                .k = ConstView<4>(k.data(), {1, tokens, 1, dim}),
                                .v = ConstView<4>(v.data(), {1, tokens, 1, dim}),
                                .out = View<4>(out.data(), {1, tokens, group, dim}),
                                .lse = View<3>(out.data() + tokens * group * dim, {1, tokens, group}),
                                .causal = true};
  return run_operator(device, options, op, out);
}

Ran run_merge_states(const Device& device, const Options& options) {
  constexpr index states = 3, tokens = 40;
  const auto parts = values<float>(states * tokens * 2 * dim, -9, 9, 14);
  const auto lse = values<float>(states * tokens * 2, -2, 2, 15);
  std::vector<float> out(tokens * 2 * dim);
  const MergeStates<Host> op{.partial_out = ConstView<4>(parts.data(), {states, tokens, 2, dim}),
                             .partial_lse = ConstView<3>(lse.data(), {states, tokens, 2}),
                             .out = View<3>(out.data(), {tokens, 2, dim})};
  return run_operator(device, options, op, out);
}

TEST(AttentionMutants, EachNecessarySyncIsMissed) {
  const std::vector<Problem> programs = {{"incre_flash_attention, f32 q", run_decode},
                                         {"incre_flash_attention, int8", run_int8},
                                         {"paged_attention", run_paged},
                                         {"flash_attention", run_prefill},
                                         {"merge_states", run_merge_states}};
  Count total;
  for (Device device : small_devices()) {
    // Room for both programs' tiles, a few of them.
    device.memories[device.memory_of[static_cast<std::size_t>(Space::vector)]].bytes *= 2;
    if (!device.same_memory(Space::staging, Space::vector))
      device.memories[device.memory_of[static_cast<std::size_t>(Space::staging)]].bytes *= 4;
    for (const Problem& one : programs) total += mutate(one, device);
  }
  std::cout << "all programs and devices: " << total << "\n";
}

}  // namespace
}  // namespace test
}  // namespace inlay::npu
