#include <inlay/exec/split/timed_line.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/split_words.hpp>
#include <inlay/exec/split/step_work.hpp>

namespace inlay::exec {
namespace {

// With what it waits for inputs that another device wrote; each device takes so many times what it does alone.
double us_of(const TimedLine& line, const DeviceList& list, std::span<const double> slowed, std::size_t at) {
  double edge = 0;
  for (const index before : line.edges.before(static_cast<index>(at))) {
    const auto from = static_cast<std::size_t>(before);
    if (line.device[from] != line.device[at])
      edge = std::max(edge, list.sync_us + list.us_a_byte * written_bytes(line.graph.steps()[from]));
  }
  return slowed[line.device[at]] * line.us[at] + edge;
}

Status run(const TimedLine& line, const DeviceList& list, Policy policy, std::span<const double> slowed,
           DeviceTimeline& timeline) {
  const StepTime time = [&](const GraphStep& step) -> Expected<double> {
    return us_of(line, list, slowed, static_cast<std::size_t>(&step - line.graph.steps().data()));
  };
  std::vector<std::unique_ptr<SimDevice>> made;
  std::vector<Device*> devices;
  for (const ListedDevice& each : list.devices) {
    made.push_back(
        std::make_unique<SimDevice>(DeviceOptions{.name = each.name, .kind = each.kind}, StepCompute(), time));
    devices.push_back(made.back().get());
  }
  return run_steps(
      {.graph = line.graph, .edges = line.edges, .devices = devices, .placement = line.device, .policy = policy},
      timeline);
}

// What the solver says of either device's parts alone, each by its elements, but for what reading at once costs them.
void add_parts(const LinearSplit& split, std::span<const PlacedPart> parts, const DeviceList& list, std::size_t npu,
               std::vector<double>& us) {
  double of_npu = 0, of_gpu = 0;
  for (const PlacedPart& part : parts)
    (part.device == npu ? of_npu : of_gpu) += static_cast<double>(part.part.elements());
  const double handed_over = list.sync_us + list.us_a_byte * sizeof(float) * of_npu;
  const double slower = (split.us - handed_over) / std::max(split.gpu_us, split.npu_us);
  for (const PlacedPart& part : parts) {
    const double all = part.device == npu ? split.npu_us / of_npu : split.gpu_us / of_gpu;
    us.push_back(slower * all * static_cast<double>(part.part.elements()) / list.devices[part.device].slowed);
  }
}

}  // namespace

TimedLine TimedLine::of(StepGraph graph, std::vector<std::size_t> device, std::vector<double> us,
                        std::span<const ByteRange> kept) {
  Edges edges = Edges::of(Arena(graph.accesses(), kept).apart());
  return {std::move(graph), std::move(device), std::move(us), std::move(edges)};
}

Expected<TimedLine> cut(const TimedLine& line, const DeviceList& list, std::span<const SplitStep> splits,
                        std::size_t gpu, std::size_t npu, std::span<const ByteRange> kept) {
  StepGraph graph = line.graph;
  std::vector<std::size_t> device = line.device;
  std::vector<LinearCut> cuts;
  std::vector<double> us;
  auto next = splits.begin();
  for (index i = 0; i < graph.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (next == splits.end() || next->step != i) {
      us.push_back(line.us[at]);
      continue;
    }
    cuts.push_back({.step = i, .parts = parts_of(next->split, *linear_of(line.graph.steps()[at]), gpu, npu)});
    add_parts(next->split, cuts.back().parts, list, npu, us);
    ++next;
  }
  if (Status status = cut_linears(graph, device, cuts); !status.ok()) return failure(std::move(status));
  return TimedLine::of(std::move(graph), std::move(device), std::move(us), kept);
}

// How slow devices make each other depends on how long they are at work together, and that on how slow they are: a few
// rounds tell both.
Expected<DeviceTimeline> timeline_of(const TimedLine& line, const DeviceList& list, Policy policy) {
  DeviceTimeline timeline;
  std::vector<double> slowed(list.devices.size(), 1), before;
  for (int round = 0; round < 4 && slowed != before; ++round) {
    if (Status status = run(line, list, policy, slowed, timeline); !status.ok()) return failure(std::move(status));
    before = slowed;
    for (std::size_t device = 0; device < slowed.size(); ++device)
      if (const double busy = timeline.busy_us(device); busy > 0)
        slowed[device] = 1 + (list.devices[device].slowed - 1) * timeline.shared_us(device) / busy;
  }
  return timeline;
}

}  // namespace inlay::exec
