#include <inlay/exec/split/linear_cutter.hpp>

#include <algorithm>

#include <inlay/exec/split/step_work.hpp>

namespace inlay::exec {
namespace {

Status no_linear(const GraphStep& step) { return invalid(std::string(step.name) + " is no linear; it must be one"); }

// Weights, scales, bias: all that is read beside x.
double weight_bytes(const GraphStep& step) {
  double bytes = 0;
  for (const Access& access : step.accesses)
    if (access.reads && access.field != "x") bytes += static_cast<double>(access.rows * access.span);
  return bytes;
}

Expected<ListedDevice> listed(const DeviceList& list, std::string_view name) {
  for (const ListedDevice& each : list.devices)
    if (each.name == name) return each;
  return failure(
      invalid("devices have none named " + std::string(name) + "; they must have cpu and the one beside it"));
}

}  // namespace

Expected<LinearTime> linear_time(const ListedDevice& device, const GraphStep& step) {
  const auto whole = linear_of(step);
  if (!whole) return failure(no_linear(step));
  const auto share = [outputs = whole->outputs](const LinearShape& part) {
    return static_cast<double>(part.outputs) / static_cast<double>(outputs);
  };
  if (device.rates)
    return LinearTime([=, rates = *device.rates, weights = weight_bytes(step)](const LinearShape& part) {
      const auto tokens = static_cast<double>(part.tokens);
      const double moved = static_cast<double>(part.inputs + part.outputs) * tokens * sizeof(float);
      return rates.us(2 * static_cast<double>(part.outputs * part.inputs) * tokens, weights * share(part) + moved);
    });
  const Profile::Kind kind = Profile::kind_of(step);
  if (auto known = device.profile->us(kind, step.rows); !known) return failure(std::move(known.error()));
  return LinearTime(
      [=, profile = *device.profile](const LinearShape& part) { return *profile.us(kind, part.tokens) * share(part); });
}

Expected<LinearCutter> LinearCutter::make(std::string_view words, std::optional<DeviceList> devices,
                                          std::string_view second) {
  LinearCutter cutter;
  auto parsed = SplitWords::parse(words);
  if (!parsed) return failure(std::move(parsed.error()));
  cutter.words_ = *parsed;
  if (!devices) return cutter;
  if (!words.empty())
    return failure(invalid("split is '" + std::string(words) +
                           "' beside described devices, by which linears are cut; it must be left out"));
  auto cpu = listed(*devices, "cpu"), other = listed(*devices, second);
  if (!cpu) return failure(std::move(cpu.error()));
  if (!other) return failure(std::move(other.error()));
  devices->devices = {std::move(*cpu), std::move(*other)};
  cutter.devices_ = std::move(devices);
  return cutter;
}

Expected<LinearSplit> LinearCutter::of(const GraphStep& step) {
  if (!devices_) {
    const auto shape = linear_of(step);
    if (!shape) return failure(no_linear(step));
    return words_.of(*shape);
  }
  const std::pair key(Profile::kind_of(step), step.rows);
  if (const auto known = solved_.find(key); known != solved_.end()) return known->second;
  auto split = split_step(step, *devices_, 0, 1);
  if (split) solved_.emplace(key, *split);
  return split;
}

Expected<bool> LinearCutter::gains(const StepGraph& graph, const std::vector<std::size_t>& device,
                                   std::span<const SplitStep> splits, std::span<const ByteRange> kept,
                                   Policy policy) const {
  std::vector<double> us;
  for (std::size_t i = 0; i < device.size(); ++i)
    us.push_back(devices_->devices[device[i]].profile->us(graph.steps()[i]).value_or(0));
  const TimedLine whole = TimedLine::of(graph, device, std::move(us), kept);
  auto parts = cut(whole, *devices_, splits, 0, 1, kept);
  if (!parts) return failure(std::move(parts.error()));
  auto of_whole = timeline_of(whole, *devices_, policy), of_parts = timeline_of(*parts, *devices_, policy);
  if (!of_whole) return failure(std::move(of_whole.error()));
  if (!of_parts) return failure(std::move(of_parts.error()));
  return of_parts->makespan_us() < of_whole->makespan_us();
}

Expected<LinearSplit> split_step(const GraphStep& step, const DeviceList& list, std::size_t gpu, std::size_t npu) {
  const auto shape = linear_of(step);
  if (!shape) return failure(no_linear(step));
  auto gpu_time = linear_time(list.devices[gpu], step), npu_time = linear_time(list.devices[npu], step);
  if (!gpu_time) return failure(std::move(gpu_time.error()));
  if (!npu_time) return failure(std::move(npu_time.error()));
  SplitDevices devices{.gpu = std::move(*gpu_time),
                       .npu = std::move(*npu_time),
                       .sync_us = list.sync_us,
                       .copy_us_a_byte = list.us_a_byte,
                       .weight_bytes = weight_bytes(step) / static_cast<double>(shape->outputs * shape->inputs),
                       .shared_bytes_a_us = list.shared_bytes_a_us,
                       .gpu_slowed = list.devices[gpu].slowed,
                       .npu_slowed = list.devices[npu].slowed};
  // All others pad nothing. Where there are many tokens, cuts are tried by sixteen of them.
  if (list.devices[npu].kind != DeviceKind::npu) devices.token_grain = shape->tokens < 64 ? 1 : 16;
  return split_linear(*shape, devices);
}

}  // namespace inlay::exec
