// A prompt on described devices, decision by decision: one device, a placement, chunks that overlap, cuts of linears.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cpu.hpp>
#include <inlay/exec/split/linear_cutter.hpp>
#include <inlay/exec/split/place_line.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>
#include <inlay/exec/split/timed_line.hpp>
#include <inlay/exec/time/trace.hpp>

#include "tools/plan/plan.hpp"
#include "tools/plan/planned_model.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

using exec::DeviceTimeline;
using exec::GraphStep;
using exec::Policy;
using exec::StepWork;
using exec::TimedLine;

constexpr double never = std::numeric_limits<double>::infinity();

using Prompt = exec::RecordedPrompt<>;

class Plan {
 public:
  Plan(const exec::DeviceList& list, const Prompt& prompt) : list_(list), prompt_(prompt) {}

  Status make() {
    problem_.devices = list_.devices.size();
    problem_.us_a_byte = list_.us_a_byte;
    for (std::size_t from = 0; from < problem_.devices; ++from)
      for (std::size_t to = 0; to < problem_.devices; ++to) problem_.sync_us.push_back(from == to ? 0 : list_.sync_us);
    for (const GraphStep& step : steps()) {
      std::string why;
      bool computed = false;
      for (const exec::ListedDevice& device : list_.devices) {
        const double us = device.computes(step.name) ? time(device, step, why) : never;
        computed = computed || us < never;
        problem_.us.push_back(us);
      }
      if (!computed)
        return {StatusCode::not_found, "no device of the file computes " + std::string(step.name) + " of width " +
                                           std::to_string(step.width) + (why.empty() ? "" : ": " + why)};
      // What the step before it wrote.
      problem_.bytes.push_back(problem_.bytes.empty() ? 0 : exec::written_bytes(*(&step - 1)));
    }
    auto placed = exec::place_line(problem_);
    if (!placed) return std::move(placed.error());
    std::vector<double> us;
    for (std::size_t at = 0; at < steps().size(); ++at) us.push_back(problem_.us_of(at, placed->device[at]));
    placed_us_ = placed->us;
    placed_.emplace(TimedLine::of(prompt_.graph(), std::move(placed->device), std::move(us), prompt_.kept()));
    return {};
  }

  int print(const std::string& trace) {
    std::printf("%ld steps on %zu devices\n\n", static_cast<long>(prompt_.graph().size()), list_.devices.size());
    print_placement();
    gained("steps placed, one after the other", placed_us_, print_alone());
    Best best;
    for (const Policy policy : exec::policies)
      if (Status status = overlap(*placed_, policy, "chunks overlap, " + std::string(name(policy)), placed_us_, best);
          !status.ok())
        return wrong(status);
    const std::size_t npu = list_.devices[0].kind == exec::DeviceKind::npu ? 0 : 1;
    const std::vector<exec::SplitStep> splits = linears_to_cut(npu);
    std::optional<TimedLine> parts;  // which the best one may be
    if (!splits.empty()) {
      auto cut = exec::cut(*placed_, list_, splits, 1 - npu, npu, prompt_.kept());
      if (!cut) return wrong(cut.error());
      parts.emplace(std::move(*cut));
      const std::string what = std::to_string(splits.size()) + " linears cut, " + std::string(name(best.policy));
      if (Status status = overlap(*parts, best.policy, what, best.timeline.makespan_us(), best); !status.ok())
        return wrong(status);
    }
    std::printf("\nbest of them: lower bound of this placement %.3f ms\n",
                lower_bound_us(best.timeline, best.line->edges) / 1e3);
    for (std::size_t device = 0; device < list_.devices.size(); ++device)
      std::printf("  %-12s works %10.3f ms, waits %5.1f%%\n", best.timeline.devices[device].c_str(),
                  best.timeline.busy_us(device) / 1e3, 100 * best.timeline.bubble_share(device));
    if (trace.empty()) return 0;
    const Status written = exec::write_trace(trace, "prompt as planned", best.timeline, best.line->graph);
    return written.ok() ? 0 : wrong(written);
  }

 private:
  // What has taken least so far.
  struct Best {
    const TimedLine* line = nullptr;
    Policy policy = Policy::chunk_order;
    DeviceTimeline timeline = {};
  };

  std::span<const GraphStep> steps() const { return prompt_.graph().steps(); }
  double time(const exec::ListedDevice& device, const GraphStep& step, std::string& why) const {
    if (device.rates) {
      const StepWork work = prompt_.work(step);
      return device.rates->us(work.flops, work.bytes);
    }
    auto us = device.profile->us(step);
    if (!us) why = us.error().message();
    return us.value_or(never);
  }

  // Printed as a decision behind one that takes `before` us.
  Status overlap(const TimedLine& line, Policy policy, const std::string& what, double before, Best& best) const {
    auto timeline = timeline_of(line, list_, policy);
    if (!timeline) return std::move(timeline.error());
    const double us = timeline->makespan_us();
    gained(what, us, before);
    if (best.line == nullptr || us < best.timeline.makespan_us()) best = {&line, policy, std::move(*timeline)};
    return {};
  }

  // As the solver cuts them between two devices, of which an NPU is the second. What a device does not compute or no
  // profile has stays whole, and what no cut makes faster.
  std::vector<exec::SplitStep> linears_to_cut(std::size_t npu) const {
    std::vector<exec::SplitStep> splits;
    if (list_.devices.size() != 2) return splits;
    for (const GraphStep& step : steps()) {
      const auto computes = [&](const exec::ListedDevice& device) { return device.computes(step.name); };
      if (!step.has_parts() || !std::ranges::all_of(list_.devices, computes)) continue;
      const auto split = exec::split_step(step, list_, 1 - npu, npu);
      if (split && split->cut != exec::Cut::gpu_only && split->cut != exec::Cut::npu_only)
        splits.push_back({&step - steps().data(), *split});
    }
    return splits;
  }

  // A line for each operator and width, with the device that has most of them.
  void print_placement() const {
    struct Row {
      index steps = 0;
      double us = 0;
      std::map<std::size_t, index> devices;
    };
    std::map<std::pair<std::string, index>, Row> rows;
    for (std::size_t at = 0; at < steps().size(); ++at) {
      Row& row = rows[{std::string(steps()[at].name), steps()[at].width}];
      ++row.steps;
      row.us += placed_->us[at];
      ++row.devices[placed_->device[at]];
    }
    std::printf("%-24s %8s %6s %12s  on\n", "operator", "width", "steps", "ms");
    for (const auto& [key, row] : rows) {
      std::string on;
      for (const auto& [device, count] : row.devices)
        on += (on.empty() ? "" : ", ") + list_.devices[device].name +
              (row.devices.size() > 1 ? " " + std::to_string(count) : "");
      std::printf("%-24s %8ld %6ld %12.3f  %s\n", key.first.c_str(), static_cast<long>(key.second),
                  static_cast<long>(row.steps), row.us / 1e3, on.c_str());
    }
    std::printf("\n%-44s %12s %8s\n", "decision", "ms", "gained");
  }

  // The best of the devices that compute all of it.
  double print_alone() const {
    double best = never;
    for (std::size_t device = 0; device < list_.devices.size(); ++device) {
      double us = 0;
      for (std::size_t at = 0; at < steps().size(); ++at) us += problem_.us_of(at, device);
      const std::string what = list_.devices[device].name + " alone";
      if (us < never)
        std::printf("%-44s %12.3f\n", what.c_str(), us / 1e3);
      else
        std::printf("%-44s %12s\n", what.c_str(), "not all");
      best = std::min(best, us);
    }
    return best;
  }

  static void gained(const std::string& what, double us, double before) {
    std::printf("%-44s %12.3f", what.c_str(), us / 1e3);
    if (std::isfinite(before)) std::printf(" %7.1f%%", 100 * (1 - us / before));
    std::printf("\n");
  }

  const exec::DeviceList& list_;
  const Prompt& prompt_;
  exec::PlacementProblem problem_;
  double placed_us_ = 0;             // one after the other
  std::optional<TimedLine> placed_;  // as place_line places its steps
};

}  // namespace

int plan_devices(const PlanOptions& options) {
  const auto text = read_option("--devices", options.devices);
  if (!text) return wrong(text.error());
  const auto list = exec::DeviceList::from_json(*text);
  if (!list) return wrong("--devices is " + options.devices + ": " + std::string(list.error().message()));
  auto model = planned_model(options.model, Cpu().parallel());
  if (!model) return wrong(model.error());
  const auto prompt = Prompt::record(model->config, std::move(model->weights),
                                     any_prompt(options.tokens, model->config.vocab), options.chunk);
  if (!prompt) return wrong(prompt.error());
  Plan plan(*list, **prompt);
  if (Status status = plan.make(); !status.ok()) return wrong(status);
  return plan.print(options.trace);
}

}  // namespace inlay::tools
