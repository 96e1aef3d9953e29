#include "tile_machine/estimate/estimate.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tile_machine/time/roofline.hpp"

namespace inlay::npu {

namespace {

std::string key_of(const Device& device, const EstimateRequest& program) {
  std::string key =
      device.name + " " + std::to_string(device.version) + " " + std::to_string(device.cores) + ": " + program.name;
  for (index size : program.sizes) key += " " + std::to_string(size);
  for (DType type : program.types) key.append(" ").append(name(type));
  if (program.launch.vectors > 0) key += " on " + std::to_string(program.launch.vectors);
  if (program.launch.cores > 0) key += " of " + std::to_string(program.launch.cores);
  return key;
}

double microseconds(const Device& device, double cycles) { return cycles / (device.ghz * 1e3); }

tl::expected<EventLog, Status> events_of(const Device& device, const EstimateRequest& program, bool local_footprints) {
  Machine machine(device, {.data = false, .local_footprints = local_footprints});
  const std::function<void(Core&)> body = program.build(machine);
  Outcome outcome = machine.run(body, program.launch);
  if (!outcome.ok()) return tl::unexpected<Status>(unsupported(device.name + ": " + outcome.reports.front().message));
  return std::move(outcome.log);
}

}  // namespace

tl::expected<EventLog, Status> events_of(const Device& device, const EstimateRequest& program) {
  return events_of(device, program, true);
}

tl::expected<Estimate, Status> estimate(const Device& device, const EstimateRequest& program, DramShares shares,
                                        const Parallel& parallel) {
  auto log = events_of(device, program, false);
  if (!log) return tl::unexpected<Status>(std::move(log.error()));
  auto time = order_events(*log, device);
  if (!time) return tl::unexpected<Status>(std::move(time.error()));
  // None of the timings waits for another.
  static_assert(dram_shares[0] == 1);
  const auto end_at = [&](std::size_t i) -> tl::expected<Tick, Status> {
    if (i == 0) {
      if (Status status = add_times(*log, device, {.detail = false}, *time); !status.ok())
        return tl::unexpected<Status>(std::move(status));
      return time->makespan;
    }
    Device slower = device;
    slower.dram_bytes_per_cycle = device.dram_at_share(dram_shares[i]);
    slower.dram_bytes_per_cycle_core = std::min(slower.dram_bytes_per_cycle_core, slower.dram_bytes_per_cycle);
    return makespan_of(*log, slower, *time);
  };
  std::vector<tl::expected<Tick, Status>> ends(shares == DramShares::each ? dram_shares.size() : 1);
  parallel(static_cast<index>(ends.size()),
           [&](index i) { ends[static_cast<std::size_t>(i)] = end_at(static_cast<std::size_t>(i)); });
  Estimate result;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i]) return tl::unexpected<Status>(std::move(ends[i].error()));
    result.us_at_share[i] = microseconds(device, to_cycles(*ends[i]));
  }
  const Roofline roof = roofline(*log, device, *time, program.problem);
  result.cycles = roof.makespan;
  result.us = microseconds(device, roof.makespan);
  result.bytes = time->dram_bytes;
  result.bound = roof.bounds[roof.bounding].resource;
  result.problem_share = roof.problem_share();
  return result;
}

tl::expected<Estimate, Status> CostCache::of(const Device& device, const EstimateRequest& program) {
  const std::string key = key_of(device, program);
  {
    const std::lock_guard lock(mutex_);
    if (const Estimate* known = known_.find(key)) return *known;
  }
  auto result = estimate(device, program, DramShares::all_of_it);
  if (!result) return result;
  const std::lock_guard lock(mutex_);
  known_.make_room(most);
  return known_.put(key, std::move(*result));
}

std::size_t CostCache::known() const {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

}  // namespace inlay::npu
