#include <inlay/exec/split/solver.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace inlay::exec {
namespace {

constexpr index output_grain = 256;

index rounded_up(index value, index grain) { return (value + grain - 1) / grain * grain; }

Status wrong(const std::string& what) { return {StatusCode::invalid_argument, "split_linear: " + what}; }

Status checked(const LinearShape& shape, const SplitDevices& devices) {
  const std::pair<const char*, index> counts[] = {
      {"outputs", shape.outputs}, {"inputs", shape.inputs}, {"tokens", shape.tokens}};
  for (const auto& [name, value] : counts)
    if (value <= 0) return wrong(std::string(name) + " is " + std::to_string(value) + "; it must be above 0");
  if (!devices.gpu || !devices.npu) return wrong("gpu or npu is empty; it must be a time");
  if (devices.token_grain < 1)
    return wrong("token_grain is " + std::to_string(devices.token_grain) + "; it must be above 0");
  for (std::size_t i = 0; i < devices.npu_graphs.size(); ++i)
    if (devices.npu_graphs[i] <= (i == 0 ? 0 : devices.npu_graphs[i - 1]))
      return wrong("npu_graphs[" + std::to_string(i) + "] is " + std::to_string(devices.npu_graphs[i]) +
                   "; it must be above 0 and the one before it");
  return {};
}

// The pass of the NPU that holds all tokens, what pads it included. None, where the largest graph does not.
std::vector<index> one_pass(index tokens, const SplitDevices& devices) {
  const std::vector<index>& graphs = devices.npu_graphs;
  if (graphs.empty()) return {rounded_up(tokens, devices.token_grain)};
  const auto graph = std::lower_bound(graphs.begin(), graphs.end(), tokens);
  return graph == graphs.end() ? std::vector<index>() : std::vector<index>{*graph};
}

class Search {
 public:
  Search(const LinearShape& shape, const SplitDevices& devices) : shape_(shape), devices_(devices) {}

  LinearSplit least() {
    best_ = timed(shape_, devices_, {});
    const std::vector<index> whole = one_pass(shape_.tokens, devices_);
    const bool holds_all = !whole.empty();
    if (holds_all) consider(Cut::npu_only, shape_.outputs, whole);
    if (holds_all)
      for (index n = output_grain; n < shape_.outputs; n += output_grain) consider(Cut::rows, n, whole);
    if (devices_.npu_graphs.empty()) {
      for (index m = devices_.token_grain; m < shape_.tokens; m += devices_.token_grain) cut_tokens({m});
      return best_;
    }
    for (const index graph : devices_.npu_graphs)
      if (graph < shape_.tokens) cut_tokens({graph});
    // All of several passes, or of any first ones of them, and the GPU has what is left.
    std::vector<index> several = several_passes(shape_.tokens, devices_.npu_graphs);
    while (several.size() > 1) {
      consider(Cut::multi_sequence, shape_.outputs, several);
      several.pop_back();
    }
    return best_;
  }

 private:
  // Of these tokens the NPU has all outputs, or some.
  void cut_tokens(const std::vector<index>& passes) {
    consider(Cut::sequence, shape_.outputs, passes);
    for (index n = output_grain; n < shape_.outputs; n += output_grain) consider(Cut::hybrid, n, passes);
  }
  void consider(Cut cut, index outputs, const std::vector<index>& passes) {
    LinearSplit split = timed(shape_, devices_, {.cut = cut, .npu_outputs = outputs, .npu_passes = passes});
    if (split.us < best_.us) best_ = std::move(split);
  }

  const LinearShape& shape_;
  const SplitDevices& devices_;
  LinearSplit best_;
};

}  // namespace

std::vector<index> several_passes(index tokens, std::span<const index> graphs) {
  std::vector<index> passes;
  while (tokens > 0) {
    const auto above = std::upper_bound(graphs.begin(), graphs.end(), tokens);
    passes.push_back(above == graphs.begin() ? graphs.front() : *std::prev(above));
    tokens -= passes.back();
  }
  return passes;
}

LinearSplit timed(const LinearShape& shape, const SplitDevices& devices, LinearSplit split) {
  const auto part = [&](index outputs, index tokens) {
    return LinearShape{.outputs = outputs, .inputs = shape.inputs, .tokens = tokens};
  };
  const auto weights = [&](index outputs) {
    return devices.weight_bytes * static_cast<double>(outputs) * static_cast<double>(shape.inputs);
  };
  const index passed = std::accumulate(split.npu_passes.begin(), split.npu_passes.end(), index{0});
  split.padding = std::max<index>(0, passed - shape.tokens);
  const index npu_tokens = passed - split.padding, gpu_outputs = shape.outputs - split.npu_outputs;
  split.gpu_us = split.npu_us = 0;
  double bytes = 0;
  const auto on_gpu = [&](index outputs, index tokens) {
    if (outputs == 0 || tokens == 0) return;
    split.gpu_us += devices.gpu(part(outputs, tokens));
    bytes += weights(outputs);
  };
  on_gpu(gpu_outputs, npu_tokens);
  on_gpu(shape.outputs, shape.tokens - npu_tokens);
  for (const index pass : split.npu_passes) {
    split.npu_us += devices.npu(part(split.npu_outputs, pass));
    bytes += weights(split.npu_outputs);
  }
  const bool both = split.gpu_us > 0 && split.npu_us > 0;
  if (both) split.gpu_us *= devices.gpu_slowed, split.npu_us *= devices.npu_slowed;
  split.us = std::max(split.gpu_us, split.npu_us);
  if (both && devices.shared_bytes_a_us > 0) split.us = std::max(split.us, bytes / devices.shared_bytes_a_us);
  if (!split.npu_passes.empty())
    split.us +=
        devices.sync_us + devices.copy_us_a_byte * sizeof(float) * static_cast<double>(split.npu_outputs * npu_tokens);
  return split;
}

Expected<LinearSplit> split_linear(const LinearShape& shape, const SplitDevices& devices) {
  if (Status status = checked(shape, devices); !status.ok()) return failure(std::move(status));
  return Search(shape, devices).least();
}

}  // namespace inlay::exec
