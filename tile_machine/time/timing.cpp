#include "tile_machine/time/timing.hpp"

#include <algorithm>
#include <string>

#include "tile_machine/events/sites.hpp"
#include "tile_machine/time/simulation.hpp"

namespace inlay::npu {

Simulation::Simulation(const EventLog& log, const Device& device, const Timeline& ordered, const TimingOptions& options)
    : log_(log),
      device_(device),
      order_(ordered.order),
      sync_{to_ticks(device.sync.set_cycles), to_ticks(device.sync.wait_cycles), to_ticks(device.sync.barrier_cycles),
            to_ticks(device.sync.cross_cycles), to_ticks(device.sync.stream_cycles)},
      residency_(ordered.residency),
      detail_(options.detail),
      dram_(device, log.streams, {device.dram_bytes_per_cycle, device.dram_bytes_per_cycle_core}, order_.cores(),
            options.sharing),
      l2_(device, log.streams, {device.l2.bytes_per_cycle, device.l2.bytes_per_cycle_core}, order_.cores(),
          options.sharing),
      lanes_(order_.lanes()),
      streams_(order_.streams()),
      spans_(log.entries.size()),
      again_(order_.lanes() + order_.streams()),
      sets_(again_ + order_.lanes()),
      units_(ordered.units),
      early_(units_.any() ? log.entries.size() : 0) {
  if (detail_) steps_.reserve(log.entries.size() * 3);
  for (const std::uint32_t entry : order_.works()) costs_.push_back(cost_of(device, log.entries[entry]));
  for (std::uint32_t i = 0; i < order_.lanes(); ++i) {
    const Queue& queue = device.queues[i % order_.queues()];
    lanes_[i].outstanding = queue.outstanding;
    lanes_[i].stream = order_.stream_of_lane(i);
    lanes_[i].depth = queue.depth;
    lanes_[i].issue = to_ticks(queue.issue_cycles);
  }
}

void Simulation::advance_ready() {
  while (!ready_.empty()) {
    const std::uint32_t agent = ready_.back();
    ready_.pop_back();
    if (agent < order_.lanes())
      advance_lane(agent);
    else
      advance_stream(agent - order_.lanes());
  }
}

// Ends what ends at this tick; who may go on because of it is made ready.
void Simulation::end_at_now() {
  ended_lanes_.clear();
  l2_.end(now_, ended_lanes_);
  dram_.end(now_, ended_lanes_);
  awake_.clear();
  if (wakes_.next() == now_) wakes_.take(awake_);
  for (const std::uint64_t agent : awake_) {
    if (agent < order_.lanes()) {
      ended_lanes_.push_back(static_cast<std::uint32_t>(agent));
    } else if (agent < again_) {
      wake(static_cast<std::uint32_t>(agent));
    } else if (agent < sets_) {
      wake(static_cast<std::uint32_t>(agent - again_));
    } else {
      early_[agent - sets_] = true;
      signal(static_cast<std::uint32_t>(agent - sets_));
    }
  }
  for (std::uint32_t lane : ended_lanes_) {
    const bool transfer = lanes_[lane].cost.shared && lanes_[lane].state < LaneState::running;
    if ((transfer && move_bytes(lane)) || !may_end(lane)) continue;
    end_entry(lane);
    wake(lane);
  }
}

Status Simulation::run() {
  for (std::uint32_t stream = 0; stream < order_.streams(); ++stream) wake_stream(stream);
  for (;;) {
    advance_ready();
    // Bandwidth is shared anew when all of this tick's transfers have started and ended.
    if (wakes_.next() > now_) {
      dram_.share(now_);
      l2_.share(now_);
    }
    const Tick next = std::min({wakes_.next(), dram_.next_end(), l2_.next_end()});
    if (next == never) return deadlock();
    now_ = next;
    end_at_now();
  }
}

Status Simulation::deadlock() const {
  std::string waiting;
  const auto append = [&](std::uint32_t index) {
    const Entry& entry = log_.entries[index];
    const std::string mine = stream_name(device_, log_.streams, entry.stream);
    waiting += (waiting.empty() ? "" : "; ") + std::string("core ") + std::to_string(entry.core) +
               (mine.empty() ? "" : " " + mine) + ": " + entry.verb + " at " + line_of(entry.site);
    if (entry.event == Event::wait || entry.event == Event::stream_wait)
      waiting.append(" for set(").append(name(entry.from)).append(", ").append(name(entry.to)) +=
          ", " + std::to_string(entry.flag) + ")";
  };
  for (std::uint32_t lane = 0; lane < order_.lanes(); ++lane)
    if (lanes_[lane].next < lanes_[lane].issued) append(order_.queue(lane)[lanes_[lane].next]);
  for (std::uint32_t stream = 0; stream < order_.streams(); ++stream)
    if (streams_[stream].state != StreamState::done) append(order_.stream(stream)[streams_[stream].next]);
  if (waiting.empty()) return {};
  return invalid("log: no entry can go on. " + waiting);
}

void Simulation::finish(Timeline& timeline) {
  timeline.makespan = now_;
  if (detail_) timeline.spans.assign(spans_.begin(), spans_.end());
  timeline.dram = dram_.samples();
  timeline.dram_bytes = dram_.moved_bytes();
  timeline.l2_bytes = l2_.moved_bytes();
  timeline.steps = std::move(steps_);
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[i];
    if (detail_) lane.ledger.add(Cause::drain, now_ - lane.free, no_entry);
    const std::uint32_t stream = order_.stream_of_lane(i);
    timeline.lanes.push_back({.core = order_.core_of_stream(stream),
                              .stream = stream % order_.streams_of_a_core(),
                              .queue = i % order_.queues(),
                              .entries = static_cast<std::uint32_t>(order_.queue(i).size()),
                              .busy = lane.busy,
                              .last_end = lane.free,
                              .stalls = lane.ledger.stalls()});
  }
}

tl::expected<Timeline, Status> order_events(const EventLog& log, const Device& device) {
  auto order = EventOrder::of(log, device);
  if (!order) return tl::unexpected<Status>(std::move(order.error()));
  Timeline timeline;
  timeline.order = std::move(*order);
  timeline.residency = Residency(log, device, timeline.order);
  timeline.units = UnitFlags(log, device, timeline.order);
  return timeline;
}

Status add_times(const EventLog& log, const Device& device, const TimingOptions& options, Timeline& timeline) {
  Simulation simulation(log, device, timeline, options);
  if (Status status = simulation.run(); !status.ok()) return status;
  simulation.finish(timeline);
  return {};
}

tl::expected<Timeline, Status> time_events(const EventLog& log, const Device& device, const TimingOptions& options) {
  auto timeline = order_events(log, device);
  if (!timeline) return timeline;
  if (Status status = add_times(log, device, options, *timeline); !status.ok())
    return tl::unexpected<Status>(std::move(status));
  return timeline;
}

tl::expected<Tick, Status> makespan_of(const EventLog& log, const Device& device, const Timeline& ordered) {
  Simulation simulation(log, device, ordered, {.detail = false});
  if (Status status = simulation.run(); !status.ok()) return tl::unexpected<Status>(std::move(status));
  return simulation.makespan();
}

}  // namespace inlay::npu
