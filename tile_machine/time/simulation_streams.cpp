// Scalar streams: issue in program order, and the entries that the scalar unit does itself.
#include <algorithm>

#include "tile_machine/time/simulation.hpp"

namespace inlay::npu {

void Simulation::stop(std::uint32_t number, StreamState state) {
  streams_[number].state = state;
  streams_[number].since = now_;
}

void Simulation::pass_time(std::uint32_t number, Tick ticks) {
  streams_[number].until = now_ + ticks;
  wakes_.push(now_ + ticks, order_.lanes() + number);
}

// A stop of the stream idles the scalar unit itself, and each queue that runs out of entries meanwhile.
void Simulation::charge_stop(std::uint32_t number, const Stall& of, Tick begin, Tick end) {
  if (begin >= end || !detail_) return;
  Stream& stream = streams_[number];
  stream.stalls.push_back({begin, end, of});
  lanes_[order_.scalar_lane(number)].ledger.add(of, end - begin, order_.stream(number)[stream.next]);
}

// True: the entry is in its queue.
bool Simulation::put_in_queue(std::uint32_t number, std::uint32_t index) {
  Stream& stream = streams_[number];
  const std::uint32_t lane_index = order_.kind(index).lane;
  Lane& lane = lanes_[lane_index];
  if (stream.state == StreamState::at_entry) {
    lanes_[order_.scalar_lane(number)].busy += lane.issue;
    stop(number, StreamState::issuing);
    pass_time(number, lane.issue);
    return false;
  }
  // An entry that has started has left the queue.
  if (lane.issued - lane.begun >= lane.depth) {
    if (stream.state == StreamState::issuing) stop(number, StreamState::queue_full);
    return false;
  }
  if (stream.state == StreamState::queue_full && detail_) {
    const Pipe pipe = log_.entries[index].pipe;
    charge_stop(number, {.cause = Cause::queue_full, .from = pipe, .to = pipe}, stream.since, now_);
  }
  issue(number, index, now_);
  return true;
}

void Simulation::issue(std::uint32_t number, std::uint32_t index, Tick at) {
  const std::uint32_t lane_index = order_.kind(index).lane;
  spans_[index].issued = at;
  stamp(index, Step::issued);
  ++lanes_[lane_index].issued;
  ++streams_[number].outstanding;
  advance_lane(lane_index);
}

// Where a queue has room now it has when the entry comes, as nobody else fills it: the stream puts entries there ahead
// of its time, up to one that has to wait and see. Half of all events are spared. Not where stalls are wanted, which
// are charged in the order in which they come.
void Simulation::issue_ahead(std::uint32_t number) {
  Stream& stream = streams_[number];
  Lane& scalar = lanes_[order_.scalar_lane(number)];
  const auto entries = order_.stream(number);
  Tick at = now_;
  for (; stream.next < entries.size(); ++stream.next) {
    const std::uint32_t index = entries[stream.next];
    const EntryKind& kind = order_.kind(index);
    const Lane& lane = lanes_[kind.lane];
    if (kind.on_stream || lane.issued - lane.begun >= lane.depth) break;
    at += lane.issue;
    scalar.busy += lane.issue;
    issue(number, index, at);
  }
  scalar.free = at;
  if (at == now_) return;
  stream.state = StreamState::ahead;
  stream.until = at;
  wakes_.push(at, order_.lanes() + number);
}

bool Simulation::all_at_sync() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
    return stream.state == StreamState::sync_all && stream.outstanding == 0;
  });
}

// Of an entry that the scalar unit does itself: nothing holds it back. Else the stream stops.
bool Simulation::may_start(std::uint32_t number, std::uint32_t index) {
  Stream& stream = streams_[number];
  const EntryKind& entry = order_.kind(index);
  const auto hold = [&](StreamState state) {
    if (stream.state == StreamState::at_entry) stop(number, state);
    return false;
  };
  if (entry.waits) {
    if (!arrived(index)) return hold(StreamState::flag);
    if (stream.state == StreamState::flag && detail_)
      each_cause(index, stream.since, now_,
                 [&](const Stall& of, Tick begin, Tick end) { charge_stop(number, of, begin, end); });
  } else if (entry.event == Event::barrier_all) {
    if (stream.outstanding > 0) return hold(StreamState::barrier);
    if (stream.state == StreamState::barrier) charge_stop(number, {.cause = Cause::barrier}, stream.since, now_);
  } else if (entry.event == Event::sync_all) {
    hold(StreamState::sync_all);
    if (!all_at_sync()) return false;
    for (std::uint32_t other = 0; other < order_.streams(); ++other) {
      const Stream& waiting = streams_[other];
      const Tick emptied = std::max(waiting.since, waiting.emptied);
      charge_stop(other, {.cause = Cause::barrier}, waiting.since, emptied);
      charge_stop(other, {.cause = Cause::cross}, emptied, now_);
      if (other != number) start_on_stream(other, order_.stream(other)[waiting.next]);
    }
  }
  return true;
}

void Simulation::start_on_stream(std::uint32_t number, std::uint32_t index) {
  const Event event = order_.kind(index).event;
  spans_[index].started = now_;
  stamp(index, Step::started);
  Lane& scalar = lanes_[order_.scalar_lane(number)];
  Tick ticks = instruction_ticks(event);
  if (detail_) scalar.ledger.add(Cause::sync, ticks, index);
  if (event == Event::work) {
    const Cost cost = cost_of(device_, log_.entries[index], residency_.before(index));
    ticks = cost.head + cost.units;
    scalar.busy += ticks;
  }
  stop(number, StreamState::running);
  pass_time(number, ticks);
}

// One move of the stream. True: it has gone past its entry.
bool Simulation::step(std::uint32_t number) {
  Stream& stream = streams_[number];
  if ((stream.state == StreamState::issuing || stream.state == StreamState::running ||
       stream.state == StreamState::ahead) &&
      now_ < stream.until)
    return false;
  if (stream.state == StreamState::ahead) stream.state = StreamState::at_entry;
  if (stream.state == StreamState::at_entry && !detail_) {
    issue_ahead(number);
    if (stream.state == StreamState::ahead) return false;
  }
  const auto entries = order_.stream(number);
  if (stream.next == entries.size()) {
    stream.state = StreamState::done;
    return false;
  }
  const std::uint32_t index = entries[stream.next];
  if (!order_.kind(index).on_stream) {
    if (!put_in_queue(number, index)) return false;
  } else if (stream.state == StreamState::running) {
    spans_[index].ended = now_;
    stamp(index, Step::ended);
    if (order_.kind(index).sets) signal(index);
  } else {
    if (stream.state == StreamState::at_entry) {
      spans_[index].issued = now_;
      stamp(index, Step::issued);
    }
    if (may_start(number, index)) start_on_stream(number, index);
    return false;
  }
  ++stream.next;
  stream.state = StreamState::at_entry;
  lanes_[order_.scalar_lane(number)].free = now_;
  return true;
}

void Simulation::advance_stream(std::uint32_t number) {
  while (step(number)) {
  }
}

}  // namespace inlay::npu
