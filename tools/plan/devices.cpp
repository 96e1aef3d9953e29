// A prompt on described devices, decision by decision: one device, a placement, chunks that overlap, cuts of linears.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cpu.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/linear_cutter.hpp>
#include <inlay/exec/split/place_line.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>
#include <inlay/exec/time/trace.hpp>

#include "tools/plan/plan.hpp"
#include "tools/plan/planned_model.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

using exec::DeviceTimeline;
using exec::Edges;
using exec::GraphStep;
using exec::Policy;
using exec::StepWork;

constexpr double never = std::numeric_limits<double>::infinity();

using Prompt = exec::RecordedPrompt<>;

class Plan {
 public:
  Plan(const exec::DeviceList& list, const Prompt& prompt)
      : list_(list),
        prompt_(prompt),
        edges_(Edges::of(exec::Arena(prompt.graph().accesses(), prompt.kept()).apart())) {}

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
    placement_ = std::move(*placed);
    return {};
  }

  int print(const std::string& trace) {
    std::printf("%ld steps on %zu devices\n\n", static_cast<long>(prompt_.graph().size()), list_.devices.size());
    print_placement();
    const double alone = print_alone();
    gained("steps placed, one after the other", placement_.us, alone);
    DeviceTimeline best;
    for (const Policy policy : exec::policies) {
      DeviceTimeline timeline;
      if (Status status = run(policy, timeline); !status.ok()) return wrong(status);
      gained("chunks overlap, " + std::string(name(policy)), timeline.makespan_us(), placement_.us);
      if (best.spans.empty() || timeline.makespan_us() < best.makespan_us()) best = std::move(timeline);
    }
    print_cuts(std::min(placement_.us, best.makespan_us()));
    std::printf("\nbest of the policies: lower bound of this placement %.3f ms\n", lower_bound_us(best, edges_) / 1e3);
    for (std::size_t device = 0; device < best.devices.size(); ++device)
      std::printf("  %-12s works %10.3f ms, waits %5.1f%%\n", best.devices[device].c_str(), best.busy_us(device) / 1e3,
                  100 * best.bubble_share(device));
    if (trace.empty()) return 0;
    const Status written = exec::write_trace(trace, "prompt as planned", best, prompt_.graph());
    return written.ok() ? 0 : wrong(written);
  }

 private:
  std::span<const GraphStep> steps() const { return prompt_.graph().steps(); }
  std::size_t place(const GraphStep& step) const { return static_cast<std::size_t>(&step - steps().data()); }

  double time(const exec::ListedDevice& device, const GraphStep& step, std::string& why) const {
    if (device.rates) {
      const StepWork work = prompt_.work(step);
      return device.rates->us(work.flops, work.bytes);
    }
    auto us = device.profile->us(step);
    if (!us) why = us.error().message();
    return us.value_or(never);
  }

  // With what it waits for the inputs that another device wrote.
  double placed_us(const GraphStep& step) const {
    const std::size_t at = place(step), device = placement_.device[at];
    double edge = 0;
    for (const index before : edges_.before(static_cast<index>(at))) {
      const auto from = static_cast<std::size_t>(before);
      if (placement_.device[from] != device)
        edge = std::max(edge, list_.sync_us + list_.us_a_byte * exec::written_bytes(steps()[from]));
    }
    return problem_.us_of(at, device) + edge;
  }

  Status run(Policy policy, DeviceTimeline& timeline) const {
    const exec::StepTime time = [this](const GraphStep& step) -> Expected<double> { return placed_us(step); };
    std::vector<std::unique_ptr<exec::SimDevice>> made;
    std::vector<exec::Device*> devices;
    for (const exec::ListedDevice& each : list_.devices) {
      made.push_back(std::make_unique<exec::SimDevice>(exec::DeviceOptions{.name = each.name, .kind = each.kind},
                                                       exec::StepCompute(), time));
      devices.push_back(made.back().get());
    }
    return exec::run_steps({.graph = prompt_.graph(),
                            .edges = edges_,
                            .devices = devices,
                            .placement = placement_.device,
                            .policy = policy},
                           timeline);
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
      row.us += problem_.us_of(at, placement_.device[at]);
      ++row.devices[placement_.device[at]];
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

  // What the solver would gain of linears, one after the other: of two devices, of which an NPU is the second.
  void print_cuts(double before) const {
    if (list_.devices.size() != 2) return;
    const std::size_t npu = list_.devices[0].kind == exec::DeviceKind::npu ? 0 : 1;
    double saved = 0;
    index cut = 0, linears = 0;
    for (std::size_t at = 0; at < steps().size(); ++at) {
      if (!exec::linear_of(steps()[at])) continue;
      ++linears;
      const auto split = exec::split_step(steps()[at], list_, 1 - npu, npu);
      if (!split || split->cut == exec::Cut::gpu_only || split->cut == exec::Cut::npu_only) continue;
      ++cut;
      saved += std::max(0.0, placed_us(steps()[at]) - split->us);
    }
    std::printf("linears: %ld of %ld would be cut, which saves %.3f ms of %.3f ms if nothing overlaps\n",
                static_cast<long>(cut), static_cast<long>(linears), saved / 1e3, before / 1e3);
  }

  const exec::DeviceList& list_;
  const Prompt& prompt_;
  const Edges edges_;  // of the values, not of the buffers that they lie in
  exec::PlacementProblem problem_;
  exec::PlacedLine placement_;
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
