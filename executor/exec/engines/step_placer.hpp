// Which of two devices computes each step of a recorded line, and what becomes several steps: outliers of int8 linears,
// and linears that both compute.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/placement.hpp>
#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/fallback.hpp>
#include <inlay/exec/plan/int8_parts.hpp>
#include <inlay/exec/schedule/cut_linears.hpp>
#include <inlay/exec/split/linear_cutter.hpp>
#include <inlay/exec/split/step_work.hpp>

namespace inlay::exec {

template <class Second> class StepPlacer {
 public:
  enum : std::size_t { first_device, second_device };

  // `runner`: the second device's, which outlives it.
  static Expected<StepPlacer> make(const SideBySide<Second>& run, index layers, StepRunner<Second&>& runner) {
    const std::string second(Second::name);
    auto placement = Placement::parse(run.place.empty() ? "linears=" + second : run.place, second, layers);
    if (!placement) return failure(std::move(placement.error()));
    auto cutter = LinearCutter::make(run.split, run.devices, second);
    if (!cutter) return failure(std::move(cutter.error()));
    StepPlacer placer(std::move(*placement), std::move(*cutter), run.outliers_apart, runner);
    placer.solves_ = run.devices.has_value() && run.place.empty();
    placer.policy_ = run.policy;
    return placer;
  }

  // What the second device declined, and what befell it.
  std::span<const Fallback> fallbacks() const { return fallbacks_; }
  // From now on all is the first one's.
  void give_up_second(const Status& why) {
    second_is_left_ = false;
    fallbacks_.push_back({"every operator", Second::name, Cpu::name, std::string(why.message())});
  }
  bool second_is_left() const { return second_is_left_; }

  // The line as it is to run, which looks at `between` besides until an arena has that; `kept` outlives it (Arena).
  Status place(StepGraph& graph, std::vector<std::size_t>& placement, HostTensors& between,
               std::span<const ByteRange> kept) {
    if (outliers_apart_)
      if (Status status = take_int8_apart<Cpu, Second>(graph, between); !status.ok()) return status;
    if (second_is_left_ && solves_) {
      auto solved = cutter_.place(graph, [this](const GraphStep& step) { return is_computed(step); });
      if (!solved) return std::move(solved.error());
      placement = std::move(*solved);
    } else {
      for (const GraphStep& step : std::as_const(graph).steps()) placement.push_back(device_of(step));
    }
    return second_is_left_ ? cut(graph, placement, kept) : Status();
  }

 private:
  StepPlacer(Placement placement, LinearCutter cutter, bool outliers_apart, StepRunner<Second&>& runner)
      : placement_(std::move(placement)),
        cutter_(std::move(cutter)),
        outliers_apart_(outliers_apart),
        runner_(runner) {}

  // The second device's linears, or all that a solver cuts, as far as it computes parts of them.
  Status cut(StepGraph& graph, std::vector<std::size_t>& placement, std::span<const ByteRange> kept) {
    if (cutter_.cuts_nothing()) return {};
    std::vector<LinearCut> cuts;
    std::vector<SplitStep> splits;
    for (index i = 0; i < graph.size(); ++i) {
      const GraphStep& step = std::as_const(graph).steps()[static_cast<std::size_t>(i)];
      if (!step.has_parts() || (!solves_ && placement[static_cast<std::size_t>(i)] != second_device)) continue;
      auto split = cutter_.of(step);
      if (!split) return std::move(split.error());
      // Between whole linears and what is about them the placement has chosen.
      if (solves_ && (split->cut == Cut::gpu_only || split->cut == Cut::npu_only)) continue;
      LinearCut each{.step = i, .parts = parts_of(*split, *linear_of(step), first_device, second_device)};
      const bool computed = std::ranges::all_of(each.parts, [&](const PlacedPart& part) {
        return part.device == first_device || is_computed(step.part(part.part));
      });
      if (!computed) continue;
      cuts.push_back(std::move(each));
      splits.push_back({i, std::move(*split)});
    }
    if (solves_ && !cuts.empty()) {
      auto gains = cutter_.gains(graph, placement, splits, kept, policy_);
      if (!gains) return std::move(gains.error());
      if (!*gains) return {};
    }
    return cut_linears(graph, placement, cuts);
  }

  std::size_t device_of(const GraphStep& step) {
    return second_is_left_ && placement_.is_second(step) && is_computed(step) ? second_device : first_device;
  }
  // By the second device.
  bool is_computed(const GraphStep& step) {
    const Status declined = runner_.supports(step);
    if (declined.ok()) return true;
    const auto known =
        std::find_if(fallbacks_.begin(), fallbacks_.end(), [&](const Fallback& each) { return each.op == step.name; });
    if (known == fallbacks_.end())
      fallbacks_.push_back({step.name, Second::name, Cpu::name, std::string(declined.message())});
    return false;
  }

  Placement placement_;
  LinearCutter cutter_;
  bool outliers_apart_, second_is_left_ = true;
  bool solves_ = false;  // nobody has said what the second device has
  Policy policy_ = Policy::chunk_order;
  StepRunner<Second&>& runner_;
  std::vector<Fallback> fallbacks_;
};

}  // namespace inlay::exec
