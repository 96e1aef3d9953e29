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
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/schedule/cut_linears.hpp>
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

// Steps where they are computed, with what each takes there.
struct Line {
  exec::StepGraph graph;
  std::vector<std::size_t> device;
  std::vector<double> us;
  Edges edges;  // of the values, not of the buffers that they lie in
};

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
    placed_.emplace(line(prompt_.graph(), std::move(placed->device), std::move(us)));
    return {};
  }

  int print(const std::string& trace) {
    std::printf("%ld steps on %zu devices\n\n", static_cast<long>(prompt_.graph().size()), list_.devices.size());
    print_placement();
    gained("steps placed, one after the other", placed_us_, print_alone());
    Best best{.us = placed_us_};
    for (const Policy policy : exec::policies)
      if (Status status = overlap(*placed_, policy, "chunks overlap, " + std::string(name(policy)), best); !status.ok())
        return wrong(status);
    index count = 0;
    auto cut = cut_linears(count);
    if (!cut) return wrong(cut.error());
    if (count > 0) {
      const Policy policy = best.policy;
      const std::string what = std::to_string(count) + " linears cut, " + std::string(name(policy));
      if (Status status = overlap(*cut, policy, what, best); !status.ok()) return wrong(status);
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
    double us = 0;  // of the decision before
    const Line* line = nullptr;
    Policy policy = Policy::chunk_order;
    DeviceTimeline timeline = {};
  };

  std::span<const GraphStep> steps() const { return prompt_.graph().steps(); }
  Line line(exec::StepGraph graph, std::vector<std::size_t> device, std::vector<double> us) const {
    Edges edges = Edges::of(exec::Arena(graph.accesses(), prompt_.kept()).apart());
    return {std::move(graph), std::move(device), std::move(us), std::move(edges)};
  }

  double time(const exec::ListedDevice& device, const GraphStep& step, std::string& why) const {
    if (device.rates) {
      const StepWork work = prompt_.work(step);
      return device.rates->us(work.flops, work.bytes);
    }
    auto us = device.profile->us(step);
    if (!us) why = us.error().message();
    return us.value_or(never);
  }

  // With what it waits for the inputs that another device wrote; each device takes so many times what it does alone.
  double placed_us(const Line& line, std::span<const double> slowed, std::size_t at) const {
    double edge = 0;
    for (const index before : line.edges.before(static_cast<index>(at))) {
      const auto from = static_cast<std::size_t>(before);
      if (line.device[from] != line.device[at])
        edge = std::max(edge,
                        list_.sync_us + list_.us_a_byte * exec::written_bytes(std::as_const(line.graph).steps()[from]));
    }
    return slowed[line.device[at]] * line.us[at] + edge;
  }

  // How slow devices make each other depends on how long they are at work together, and that on how slow they are: a
  // few rounds tell both.
  Status run(const Line& line, Policy policy, DeviceTimeline& timeline) const {
    std::vector<double> slowed(list_.devices.size(), 1), before;
    for (int round = 0; round < 4 && slowed != before; ++round) {
      if (Status status = run(line, policy, slowed, timeline); !status.ok()) return status;
      before = slowed;
      for (std::size_t device = 0; device < slowed.size(); ++device)
        if (const double busy = timeline.busy_us(device); busy > 0)
          slowed[device] = 1 + (list_.devices[device].slowed - 1) * timeline.shared_us(device) / busy;
    }
    return {};
  }
  Status run(const Line& line, Policy policy, std::span<const double> slowed, DeviceTimeline& timeline) const {
    const exec::StepTime time = [&](const GraphStep& step) -> Expected<double> {
      return placed_us(line, slowed, static_cast<std::size_t>(&step - line.graph.steps().data()));
    };
    std::vector<std::unique_ptr<exec::SimDevice>> made;
    std::vector<exec::Device*> devices;
    for (const exec::ListedDevice& each : list_.devices) {
      made.push_back(std::make_unique<exec::SimDevice>(exec::DeviceOptions{.name = each.name, .kind = each.kind},
                                                       exec::StepCompute(), time));
      devices.push_back(made.back().get());
    }
    return exec::run_steps(
        {.graph = line.graph, .edges = line.edges, .devices = devices, .placement = line.device, .policy = policy},
        timeline);
  }

  // Printed as a decision that follows those before.
  Status overlap(const Line& line, Policy policy, const std::string& what, Best& best) const {
    DeviceTimeline timeline;
    if (Status status = run(line, policy, timeline); !status.ok()) return status;
    const double us = timeline.makespan_us();
    gained(what, us, best.line == nullptr || best.line == &line ? placed_us_ : best.us);
    if (best.line == nullptr || us < best.timeline.makespan_us()) best = {us, &line, policy, std::move(timeline)};
    return {};
  }

  // The line with linears as the solver cuts them, of two devices, of which an NPU is the second; `count` of them.
  Expected<Line> cut_linears(index& count) const {
    exec::StepGraph graph = prompt_.graph();
    std::vector<std::size_t> device = placed_->device;
    std::vector<double> us;
    std::vector<exec::LinearCut> cuts;
    const std::size_t npu = list_.devices[0].kind == exec::DeviceKind::npu ? 0 : 1;
    for (std::size_t at = 0; at < steps().size(); ++at) {
      const GraphStep& step = steps()[at];
      const auto split = split_of(step, npu);
      if (!split) {
        us.push_back(placed_->us[at]);
        continue;
      }
      cuts.push_back({.step = static_cast<index>(at), .parts = parts_of(*split, *exec::linear_of(step), 1 - npu, npu)});
      add_parts(*split, cuts.back().parts, npu, us);
    }
    count = std::ssize(cuts);
    if (Status status = exec::cut_linears(graph, device, cuts); !status.ok()) return failure(std::move(status));
    return line(std::move(graph), std::move(device), std::move(us));
  }
  // Nothing where the step stays whole: one that a device does not compute or no profile has, or that no cut makes
  // faster.
  std::optional<exec::LinearSplit> split_of(const GraphStep& step, std::size_t npu) const {
    const auto computes = [&](const exec::ListedDevice& device) { return device.computes(step.name); };
    if (list_.devices.size() != 2 || !step.has_parts() || !std::ranges::all_of(list_.devices, computes)) return {};
    const auto split = exec::split_step(step, list_, 1 - npu, npu);
    if (!split || split->cut == exec::Cut::gpu_only || split->cut == exec::Cut::npu_only) return {};
    return *split;
  }
  // What the solver says of either device's parts alone, each by its elements, but for what reading at once costs them.
  void add_parts(const exec::LinearSplit& split, const std::vector<exec::PlacedPart>& parts, std::size_t npu,
                 std::vector<double>& us) const {
    double elements[2] = {};
    for (const exec::PlacedPart& part : parts) elements[part.device] += static_cast<double>(part.part.elements());
    const double handed_over = list_.sync_us + list_.us_a_byte * sizeof(float) * elements[npu];
    const double slower = (split.us - handed_over) / std::max(split.gpu_us, split.npu_us);
    for (const exec::PlacedPart& part : parts)
      us.push_back(slower * (part.device == npu ? split.npu_us : split.gpu_us) / list_.devices[part.device].slowed *
                   static_cast<double>(part.part.elements()) / elements[part.device]);
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
  double placed_us_ = 0;        // one after the other
  std::optional<Line> placed_;  // steps as place_line places them
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
