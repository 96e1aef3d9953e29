// In-order queues: when an entry starts and ends, and what the time before it is charged to.
#include <algorithm>

#include "tile_machine/time/simulation.hpp"

namespace inlay::npu {

Tick Simulation::instruction_ticks(Event event) const {
  switch (event) {
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
  const auto& stalls = streams_[lane.stream].stalls;
  while (lane.stall_cursor < stalls.size() && stalls[lane.stall_cursor].end <= lane.free) ++lane.stall_cursor;
  Tick rest = end - lane.free;
  for (std::size_t i = lane.stall_cursor; i < stalls.size() && stalls[i].begin < end; ++i) {
    const Tick part = std::min(stalls[i].end, end) - std::max(stalls[i].begin, lane.free);
    lane.ledger.add(stalls[i].of, part, entry);
    rest -= part;
  }
  lane.ledger.add(Cause::issue, rest, entry);
}

bool Simulation::may_begin(std::uint32_t lane_index, std::uint32_t index) const {
  const Lane& lane = lanes_[lane_index];
  const EntryKind& entry = order_.kind(index);
  if (lane.begun > lane.next) {  // behind others that have not ended
    if (lane.outstanding <= 1 || now_ < lane.passed || !overlaps(entry)) return false;
    if (!overlaps(order_.kind(order_.queue(lane_index)[lane.next]))) return false;
    if (entry.event == Event::work && lane.transfers >= lane.outstanding) return false;
  }
  return !entry.waits || standing(index);
}

// An entry that its stream has issued ahead: the lane is looked at when it comes.
bool Simulation::in_future(std::uint32_t lane_index, std::uint32_t entry) {
  const Tick issued = spans_[entry].issued;
  if (issued <= now_) return false;
  Lane& lane = lanes_[lane_index];
  if (lane.looks != issued) wakes_.push(issued, again_ + lane_index);
  lane.looks = issued;
  return true;
}

void Simulation::advance_lane(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const auto entries = order_.queue(lane_index);
  while (lane.begun < lane.issued && may_begin(lane_index, entries[lane.begun]) &&
         !in_future(lane_index, entries[lane.begun]))
    begin(lane_index);
}

void Simulation::begin(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.begun++];
  const EntryKind& entry = order_.kind(index);
  spans_[index].started = now_;
  stamp(index, Step::started);
  if (streams_[lane.stream].state == StreamState::queue_full) wake_stream(lane.stream);
  const bool first = lane.begun == lane.next + 1;
  if (entry.moves) ++lane.transfers;
  if (entry.waits) {
    lane.passed = now_ + sync_.wait;
    if (!first) wakes_.push(lane.passed, again_ + lane_index);
  }
  if (first) run_first(lane_index);
}

// The first entry is at work now: all before it have ended.
void Simulation::run_first(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next];
  const EntryKind& kind = order_.kind(index);
  lane.l2_waited = 0;
  lane.state = LaneState::running;
  if (kind.event != Event::work) {
    lane.cost = {.head = instruction_ticks(kind.event)};
    const Tick end = (kind.waits ? spans_[index].started : now_) + lane.cost.head;
    if (end <= now_ && spans_[index].started < now_) return end_entry(lane_index);  // it was over behind others
    wakes_.push(std::max(now_, end), lane_index);
    return;
  }
  lane.cost = costs_[kind.work];
  if (const Traffic* known = residency_.before(index).traffic; known != nullptr && lane.cost.shared)
    take_from_l2(device_, *known, lane.cost);
  lane.moves = std::max(now_, spans_[index].started + lane.cost.head);
  if (lane.cost.shared) lane.state = LaneState::head;
  if (lane.cost.shared && lane.moves == now_ && move_bytes(lane_index)) {
    units_.each_set(index, [&](std::uint32_t set) { wake_set(set, lane, index); });
    return;
  }
  wakes_.push(lane.cost.shared ? lane.moves : lane.moves + lane.cost.units, lane_index);
  units_.each_set(index, [&](std::uint32_t set) { wake_set(set, lane, index); });
}

// A unit flag stands when the first granule of the work before it is done.
void Simulation::wake_set(std::uint32_t set, const Lane& lane, std::uint32_t work) {
  wakes_.push(lane.moves + UnitFlags::granule(device_, log_.entries[work].work, lane.cost.units),
              std::uint64_t{sets_} + set);
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
  if (order_.kind(index).event != Event::work) return 0;
  return std::max<Tick>(lane.moves - std::max(lane.free, spans_[index].started), 0) + lane.cost.units;
}

// What the first entry's time up to now is charged to, of what the one before it did not see.
void Simulation::charge(std::uint32_t lane_index, std::uint32_t index) {
  Lane& lane = lanes_[lane_index];
  const Entry& entry = log_.entries[index];
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
  if (followed > 0) lane.ledger.add(wait_cause(log_.entries[units_.wait(index)]), followed, index);
  lane.ledger.add(Cause::dram_share, rest - followed, index);
}

// The first entry's own work is done. By a unit flag it ends no earlier than its last granule after its leader's.
bool Simulation::may_end(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next];
  if (lane.state != LaneState::following) lane.done = now_;
  const std::uint32_t leader = units_.leader(index);
  if (leader == no_entry || order_.kind(index).event != Event::work) return true;
  const auto place = std::find(followers_.begin(), followers_.end(), lane_index);
  if (!ended(leader)) {
    if (place == followers_.end()) followers_.push_back(lane_index);
    lane.state = LaneState::following;
    return false;
  }
  if (place != followers_.end()) followers_.erase(place);
  const Tick end = spans_[leader].ended + UnitFlags::granule(device_, log_.entries[index].work, lane.cost.units);
  if (end <= now_) return true;
  lane.state = LaneState::following;
  wakes_.push(end, lane_index);
  return false;
}

void Simulation::end_entry(std::uint32_t lane_index) {
  Lane& lane = lanes_[lane_index];
  const std::uint32_t index = order_.queue(lane_index)[lane.next++];
  const EntryKind& entry = order_.kind(index);
  spans_[index].ended = now_;
  lane.busy += work_of(lane, index);
  if (detail_) charge(lane_index, index);
  lane.free = now_;
  lane.state = LaneState::idle;
  stamp(index, Step::ended);
  if (entry.moves) --lane.transfers;
  for (std::uint32_t follower : followers_) {
    if (units_.leader(order_.queue(follower)[lanes_[follower].next]) != index) continue;
    wakes_.push(now_, follower);
  }
  if (entry.sets) signal(index);
  const std::uint32_t number = lane.stream;
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
  const EntryKind& wait = order_.kind(waiter);
  const Lane& lane = lanes_[wait.lane];
  if (const Tick later = flight(entry); later > 0) {
    wakes_.push(now_ + later, wait.on_stream ? order_.lanes() + lane.stream : again_ + wait.lane);
  } else if (wait.on_stream) {
    if (streams_[lane.stream].state == StreamState::flag) wake_stream(lane.stream);
  } else if (lane.begun < lane.issued) {
    wake(wait.lane);
  }
}

}  // namespace inlay::npu
