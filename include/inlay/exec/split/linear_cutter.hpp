// How linears of a line are cut between the CPU and a second device: by words (split_words.hpp), or by what a solver
// makes of two described devices (solver.hpp), which may leave a linear whole to either.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/exec/split/device_list.hpp>
#include <inlay/exec/split/place_steps.hpp>
#include <inlay/exec/split/split_words.hpp>
#include <inlay/exec/split/timed_line.hpp>

namespace inlay::exec {

class LinearCutter {
 public:
  // `devices` has one named cpu and one of the second's name. Errors: words beside devices, words that are none, a
  // device that is not there.
  static Expected<LinearCutter> make(std::string_view words, std::optional<DeviceList> devices,
                                     std::string_view second);

  bool cuts_nothing() const { return !devices_ && words_.cuts_nothing(); }
  // Of a linear's step; the solver's NPU is the second device. Not found: a step that a device's profile lacks.
  Expected<LinearSplit> of(const GraphStep& step);
  // Of described devices, which has each step: 0, the cpu, or 1 (place_steps.hpp).
  Expected<std::vector<std::size_t>> place(const StepGraph& graph,
                                           const std::function<bool(const GraphStep&)>& supports) const {
    return place_steps(graph, *devices_, 0, 1, supports);
  }
  // Of a line that was placed so: is it done earlier with these linears cut? A cut takes from a device what else it
  // would do meanwhile, of other chunks for example. `kept`: what outlives the line (Arena).
  Expected<bool> gains(const StepGraph& graph, const std::vector<std::size_t>& device,
                       std::span<const SplitStep> splits, std::span<const ByteRange> kept, Policy policy) const;

 private:
  SplitWords words_;
  std::optional<DeviceList> devices_;  // the cpu and the second one
  std::map<std::pair<Profile::Kind, index>, LinearSplit> solved_;
};

// Of a linear's step, what the solver makes of two of a list's devices; an NPU computes tokens by 32.
Expected<LinearSplit> split_step(const GraphStep& step, const DeviceList& list, std::size_t gpu, std::size_t npu);
// What the device takes for a linear of fewer outputs or tokens than the step's; a part of the outputs takes its share.
Expected<LinearTime> linear_time(const ListedDevice& device, const GraphStep& step);

}  // namespace inlay::exec
