// In-order queues: when an entry starts and ends, and what the time before it is charged to.
#include <algorithm>

#include "npu_kernels/machine/time/simulation.hpp"

namespace inlay::npu {

Tick Simulation::instruction_ticks(const Entry& entry) const {
  switch (entry.event) {
    case Event::set:
    case Event::stream_set: return sync_.set;
    case Event::wait:
    case Event::stream_wait:
    case Event::cross_wait: return sync_.wait;
    case Event::barrier:
    case Event::barrier_all: return sync_.barrier;
    case Event::cross_set:
    case Event::sync_all: return sync_.cross;
    case Event::work:
    case Event::allocate:
    case Event::release: break;
  }
  return 0;
}

// The lane was idle from its last end until the stream issued `entry` to it at `end`.
void Simulation::charge_gap(std::uint32_t lane_index, Tick end, std::uint32_t entry) {
  Lane& lane = lanes_[lane_index];
  if (end <= lane.free) return;
  const auto& stalls = streams_[order_.stream_of_lane(lane_index)].stalls;
  while (lane.stall_cursor < stalls.size() && stalls[lane.stall_cursor].end <= lane.free) ++lane.stall_cursor;
  Tick rest = end - lane.free;
  for (std::size_t i = lane.stall_cursor; i < stalls.size() && stalls[i].begin < end; ++i) {
    const Tick part = std::min(stalls[i].end, end) - std::max(stalls[i].begin, lane.free);
    lane.ledger.add(stalls[i].of, part, entry);
    rest -= part;
  }
  lane.ledger.add(Cause::issue, rest, entry);
}

void Simulation::advance_lane(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  if ((lane.state != LaneState::idle && lane.state != LaneState::blocked) || lane.next == lane.issued) return;
  const std::uint32_t index = order_.queue(lane_index)[lane.next];
  const Entry& entry = tape_.entries[index];
  Span& span = spans_[index];
  if (waits(entry.event) && !arrived(index)) {
    lane.state = LaneState::blocked;
    return;
  }
  charge_gap(lane_index, span.issued, index);
  if (waits(entry.event))
    each_cause(index, std::max(lane.free, span.issued),
               [&](const Stall& of, Tick begin, Tick end) { lane.ledger.add(of, end - begin, index); });
  span.started = now_;
  stamp(index, Step::started);
  const std::uint32_t stream = order_.stream_of_lane(lane_index);
  if (streams_[stream].state == StreamState::queue_full) wake_stream(stream);
  if (entry.event == Event::work) {
    lane.cost = cost_of(device_, entry);
    lane.busy += lane.cost.head + lane.cost.units;
  } else {
    lane.cost = {.head = instruction_ticks(entry)};
    lane.ledger.add(Cause::sync, lane.cost.head, index);
  }
  lane.state = lane.cost.dram ? LaneState::head : LaneState::running;
  wakes_.push({now_ + lane.cost.head + (lane.cost.dram ? 0 : lane.cost.units), lane_index});
}

void Simulation::end_entry(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next++];
  const Entry& entry = tape_.entries[index];
  Span& span = spans_[index];
  span.ended = lane.free = now_;
  lane.state = LaneState::idle;
  stamp(index, Step::ended);
  if (lane.cost.dram) lane.ledger.add(Cause::dram_share, now_ - span.started - lane.cost.head - lane.cost.units, index);
  if (sets(entry.event)) signal(index);
  const std::uint32_t number = order_.stream_of_lane(lane_index);
  Stream& stream = streams_[number];
  if (--stream.outstanding > 0) return;
  stream.emptied = now_;
  if (stream.state == StreamState::barrier || stream.state == StreamState::sync_all) wake_stream(number);
}

void Simulation::signal(std::uint32_t entry) {
  const std::uint32_t waiter = order_.partner(entry);
  if (waiter == no_entry) return;
  const Entry& wait = tape_.entries[waiter];
  const std::uint32_t stream = order_.stream_of(wait);
  if (const Tick later = flight(tape_.entries[entry]); later > 0) {
    const std::uint32_t agent = order_.on_stream(wait) ? stream : order_.streams() + order_.lane_of(wait);
    wakes_.push({now_ + later, order_.lanes() + agent});
  } else if (order_.on_stream(wait)) {
    if (streams_[stream].state == StreamState::flag) wake_stream(stream);
  } else if (const std::uint32_t lane = order_.lane_of(wait); lanes_[lane].state == LaneState::blocked) {
    wake(lane);
  }
}

}  // namespace inlay::npu
