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

// Others may be under way beside it.
bool Simulation::overlaps(const Entry& entry) const {
  return waits(entry.event) || sets(entry.event) || (entry.event == Event::work && entry.work.unit == Unit::dma);
}

bool Simulation::may_begin(std::uint32_t lane_index, std::uint32_t index) const {
  const Lane& lane = lanes_[lane_index];
  const Entry& entry = tape_.entries[index];
  if (lane.begun > lane.next) {  // behind others that have not ended
    if (lane.outstanding <= 1 || now_ < lane.passed || !overlaps(entry)) return false;
    if (!overlaps(tape_.entries[order_.queue(lane_index)[lane.next]])) return false;
    if (entry.event == Event::work && lane.transfers >= lane.outstanding) return false;
  }
  return !waits(entry.event) || standing(index);
}

void Simulation::advance_lane(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  while (lane.begun < lane.issued && may_begin(lane_index, order_.queue(lane_index)[lane.begun])) begin(lane_index);
}

void Simulation::begin(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.begun++];
  const Entry& entry = tape_.entries[index];
  spans_[index].started = now_;
  stamp(index, Step::started);
  const std::uint32_t stream = order_.stream_of_lane(lane_index);
  if (streams_[stream].state == StreamState::queue_full) wake_stream(stream);
  const bool first = lane.begun == lane.next + 1;
  if (entry.event == Event::work && entry.work.unit == Unit::dma) ++lane.transfers;
  if (waits(entry.event)) {
    lane.passed = now_ + sync_.wait;
    if (!first) wakes_.push({lane.passed, again_ + lane_index});
  }
  if (first) run_first(lane_index);
}

// The first entry is at work now: all before it have ended.
void Simulation::run_first(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next];
  const Entry& entry = tape_.entries[index];
  lane.l2_waited = 0;
  lane.state = LaneState::running;
  if (entry.event != Event::work) {
    lane.cost = {.head = instruction_ticks(entry)};
    const Tick end = (waits(entry.event) ? spans_[index].started : now_) + lane.cost.head;
    if (end <= now_ && spans_[index].started < now_) return end_entry(lane_index);  // it was over behind others
    wakes_.push({std::max(now_, end), lane_index});
    return;
  }
  lane.cost = cost_of(device_, entry, residency_.before(index));
  lane.moves = std::max(now_, spans_[index].started + lane.cost.head);
  if (lane.cost.shared) lane.state = LaneState::head;
  if (lane.cost.shared && lane.moves == now_ && move_bytes(lane_index)) {
    units_.each_set(index, [&](std::uint32_t set) { wake_set(set, lane, entry.work); });
    return;
  }
  wakes_.push({lane.cost.shared ? lane.moves : lane.moves + lane.cost.units, lane_index});
  units_.each_set(index, [&](std::uint32_t set) { wake_set(set, lane, entry.work); });
}

// A unit flag stands when the first granule of the work before it is done.
void Simulation::wake_set(std::uint32_t set, const Lane& lane, const Work& work) {
  wakes_.push({lane.moves + UnitFlags::granule(device_, work, lane.cost.units), std::uint64_t{sets_} + set});
}

// Starts the part of the first entry's bytes that has not moved yet; false: there is none.
bool Simulation::move_bytes(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const Traffic& traffic = lane.cost.traffic;
  if (lane.state == LaneState::head && traffic.l2 > 0) {
    lane.state = LaneState::moving_l2;
    l2_.start(lane_index, traffic.l2, lane.cost.l2_rate, now_);
  } else if (lane.state < LaneState::moving && traffic.dram > 0) {
    if (lane.state == LaneState::moving_l2)
      lane.l2_waited = now_ - lane.moves - duration(to_amount(traffic.l2), lane.cost.l2_rate);
    lane.state = LaneState::moving;
    dram_.start(lane_index, traffic.dram, lane.cost.rate, now_);
  } else {
    if (lane.state == LaneState::moving_l2)
      lane.l2_waited = now_ - lane.moves - duration(to_amount(traffic.l2), lane.cost.l2_rate);
    return false;
  }
  return true;
}

// Of the first entry: what the one before it did not see.
Tick Simulation::work_of(const Lane& lane, std::uint32_t index) const {
  if (tape_.entries[index].event != Event::work) return 0;
  return std::max<Tick>(lane.moves - std::max(lane.free, spans_[index].started), 0) + lane.cost.units;
}

// What the first entry's time up to now is charged to, of what the one before it did not see.
void Simulation::charge(std::uint32_t lane_index, std::uint32_t index) {
  Lane& lane = lanes_[lane_index];
  const Entry& entry = tape_.entries[index];
  const Span& span = spans_[index];
  charge_gap(lane_index, span.issued, index);
  const Tick begin = std::max(lane.free, span.issued);
  if (waits(entry.event) && span.started > begin)
    each_cause(index, begin, span.started,
               [&](const Stall& of, Tick from, Tick to) { lane.ledger.add(of, to - from, index); });
  const Tick seen = now_ - std::max(lane.free, span.started);
  if (entry.event != Event::work) {
    lane.ledger.add(Cause::sync, seen, index);
    return;
  }
  const Tick work = work_of(lane, index);
  lane.ledger.add(Cause::l2_share, lane.l2_waited, index);
  const Tick rest = seen - work - lane.l2_waited;
  const Tick followed = now_ - lane.done;
  if (followed > 0) lane.ledger.add(wait_cause(tape_.entries[units_.wait(index)]), followed, index);
  lane.ledger.add(Cause::dram_share, rest - followed, index);
}

// The first entry's own work is done. By a unit flag it ends no earlier than its last granule after its leader's.
bool Simulation::may_end(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next];
  if (lane.state != LaneState::following) lane.done = now_;
  const std::uint32_t leader = units_.leader(index);
  if (leader == no_entry || tape_.entries[index].event != Event::work) return true;
  const auto place = std::find(followers_.begin(), followers_.end(), lane_index);
  if (!ended(leader)) {
    if (place == followers_.end()) followers_.push_back(lane_index);
    lane.state = LaneState::following;
    return false;
  }
  if (place != followers_.end()) followers_.erase(place);
  const Tick end = spans_[leader].ended + UnitFlags::granule(device_, tape_.entries[index].work, lane.cost.units);
  if (end <= now_) return true;
  lane.state = LaneState::following;
  wakes_.push({end, lane_index});
  return false;
}

void Simulation::end_entry(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next++];
  const Entry& entry = tape_.entries[index];
  spans_[index].ended = now_;
  lane.busy += work_of(lane, index);
  if (detail_) charge(lane_index, index);
  lane.free = now_;
  lane.state = LaneState::idle;
  stamp(index, Step::ended);
  if (entry.event == Event::work && entry.work.unit == Unit::dma) --lane.transfers;
  for (std::uint32_t follower : followers_) {
    if (units_.leader(order_.queue(follower)[lanes_[follower].next]) != index) continue;
    wakes_.push({now_, follower});
  }
  if (sets(entry.event)) signal(index);
  const std::uint32_t number = order_.stream_of_lane(lane_index);
  Stream& stream = streams_[number];
  if (--stream.outstanding == 0) {
    stream.emptied = now_;
    if (stream.state == StreamState::barrier || stream.state == StreamState::sync_all) wake_stream(number);
  }
  if (lane.begun > lane.next) run_first(lane_index);
}

void Simulation::signal(std::uint32_t entry) {
  const std::uint32_t waiter = order_.partner(entry);
  if (waiter == no_entry) return;
  const Entry& wait = tape_.entries[waiter];
  const std::uint32_t stream = order_.stream_of(wait);
  if (const Tick later = flight(tape_.entries[entry]); later > 0) {
    const std::uint32_t agent = order_.on_stream(wait) ? order_.lanes() + stream : again_ + order_.lane_of(wait);
    wakes_.push({now_ + later, agent});
  } else if (order_.on_stream(wait)) {
    if (streams_[stream].state == StreamState::flag) wake_stream(stream);
  } else if (const std::uint32_t lane = order_.lane_of(wait); lanes_[lane].begun < lanes_[lane].issued) {
    wake(lane);
  }
}

}  // namespace inlay::npu
