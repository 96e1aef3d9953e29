// One linear on a GPU, on an NPU, or cut between them: what takes least, as HeteroLLM's solver decides (Chen et al.,
// 2025, section 4.4). y[m, n] of x[m, k] is cut so:
//
//   rows              sequence             multi-sequence       hybrid
//   | npu  | gpu |    | npu       |        | npu pass  |        | npu  | gpu |
//   |      |     |    |-----------|        |-----------|        |------|     |
//   |      |     |    | gpu       |        | npu pass  |        |   gpu      |
//                                          | gpu       |
//
//   T = min(max(s_gpu T_gpu(part), s_npu T_npu(rest)) + T_sync + T_copy, T_gpu, T_npu + T_sync + T_copy)
//
// "Rows" are those of the weights: outputs. What an NPU gets of them aligns to 256, of tokens to 32 (`token_grain`); an
// NPU of static graphs gets as many tokens as one of its graphs has, or pads. Parts that run at once share the memory,
// and maybe cores: each takes s times what it does alone, and together they read no faster than `shared_bytes_a_us`.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay::exec {

struct LinearShape {
  index outputs = 0, inputs = 0, tokens = 0;
};

// Microseconds that a device takes for it, all alone.
using LinearTime = std::function<double(const LinearShape&)>;

struct SplitDevices {
  LinearTime gpu = {}, npu = {};
  std::vector<index> npu_graphs = {};  // tokens of those it has, ascending; none: it computes any
  index token_grain = 32;              // of tokens that it computes then
  double sync_us = 0;                  // both must have ended
  double copy_us_a_byte = 0;           // of what the NPU wrote, as f32; 0: both see one memory
  double weight_bytes = 2;             // of an element, 0.5 for instance
  double shared_bytes_a_us = 0;        // 0: without bound
  double gpu_slowed = 1, npu_slowed = 1;
};

enum class Cut : unsigned char { gpu_only, npu_only, rows, sequence, multi_sequence, hybrid };

constexpr std::string_view name(Cut cut) {
  constexpr std::string_view names[] = {"gpu only", "npu only", "rows", "sequence", "multi-sequence", "hybrid"};
  return names[static_cast<std::size_t>(cut)];
}

struct LinearSplit {
  Cut cut = Cut::gpu_only;
  index npu_outputs = 0;
  std::vector<index> npu_passes = {};  // tokens that each of them computes, padding included
  index padding = 0;                   // tokens of the last pass that are none
  double us = 0, gpu_us = 0, npu_us = 0;
};

// Passes of these graphs, which ascend, that have `tokens` together: the largest that fit, then the smallest that holds
// the rest.
std::vector<index> several_passes(index tokens, std::span<const index> graphs);

// What a split takes: its padding, gpu_us, npu_us and us are filled in.
LinearSplit timed(const LinearShape& shape, const SplitDevices& devices, LinearSplit split);

// A split is taken only where it is faster than either device alone. Errors: a shape that is not above 0, a device
// without a time, graphs that do not ascend.
Expected<LinearSplit> split_linear(const LinearShape& shape, const SplitDevices& devices);

}  // namespace inlay::exec
