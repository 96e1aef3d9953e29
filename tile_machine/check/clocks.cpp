#include "tile_machine/check/clocks.hpp"

#include <algorithm>

namespace inlay::npu {
namespace {

void join(std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

Clocks::Clocks(const EventLog& log, const Device& device, const Order& order)
    : log_(log),
      order_(order),
      lanes_(log, device),
      clocks_(lanes_.lanes(), Clock(lanes_.lanes())),
      ran_(lanes_.lanes()),
      positions_(log.entries.size(), no_entry),
      stream_version_(lanes_.streams()),
      seen_version_(lanes_.lanes()),
      at_issue_(lanes_.streams()),
      slot_of_(log.entries.size(), no_entry),
      meetings_(lanes_.streams()) {
  for (std::uint32_t lane = 0; lane < lanes_.lanes(); ++lane)
    visible_.push_back(device.queues[lane % lanes_.queues()].in_order_visible);
  for (std::uint32_t stream = 0; stream < lanes_.streams(); ++stream) visible_[lanes_.scalar_lane(stream)] = true;
}

bool Clocks::next() {
  for (; step_ < order_.steps.size(); ++step_) {
    const StreamStep step = order_.steps[step_];
    if (step.enters) {
      enter(step.entry);
      continue;
    }
    entry_ = step.entry;
    run();
    ++step_;
    return true;
  }
  return false;
}

bool Clocks::has_room() const {
  const std::uint32_t wait = order_.room_of[entry_];
  return wait == no_entry || knows(lanes_.lane_of(log_.entries[wait]), positions_[wait]);
}

bool Clocks::comes_after_its_predecessor() const {
  const std::uint32_t before = order_.turn_of[entry_];
  return before == no_entry || knows(lanes_.lane_of(log_.entries[before]), positions_[before]);
}

void Clocks::enter(std::uint32_t entry) {
  const std::uint32_t stream = lanes_.stream_of(log_.entries[entry]);
  if (!at_issue_[stream]) {
    Clock clock = clocks_[lanes_.scalar_lane(stream)];
    clock[lanes_.scalar_lane(stream)] = ran_[lanes_.scalar_lane(stream)];
    at_issue_[stream] = std::make_shared<const Clock>(std::move(clock));
  }
  entered_[entry] = at_issue_[stream];
}

void Clocks::run() {
  const Entry& entry = log_.entries[entry_];
  const std::uint32_t mine = lanes_.stream_of(entry), stream = lanes_.scalar_lane(mine);
  lane_ = lanes_.lane_of(entry);
  position_ = ran_[lane_]++;
  positions_[entry_] = position_;
  Clock& clock = clocks_[lane_];
  clock_ = &clock;
  has_turn_ = true;
  if (const auto entered = entered_.find(entry_); entered != entered_.end()) {
    join(clock, *entered->second);
    entered_.erase(entered);
  } else if (lane_ != stream && seen_version_[lane_] != stream_version_[mine]) {
    join(clock, clocks_[stream]);
    clock[stream] = ran_[stream];  // what the stream did is over before it issued this
    seen_version_[lane_] = stream_version_[mine];
  }
  if (visible_[lane_]) clock[lane_] = position_;
  switch (entry.event) {
    case Event::work:
    case Event::allocate:
    case Event::release: break;
    case Event::set:
    case Event::stream_set:
    case Event::cross_set:
      set();
      has_turn_ = comes_after_its_predecessor();
      break;
    case Event::wait:
    case Event::stream_wait:
    case Event::cross_wait:
      has_turn_ = comes_after_its_predecessor();  // what its own set knows does not count: it might get another
      if (order_.partner_of[entry_] != no_entry) take(order_.partner_of[entry_]);
      break;
    case Event::barrier: clock[lane_] = position_; break;
    case Event::barrier_all: join_stream(mine, clock); break;
    case Event::sync_all: meet(mine); break;
  }
  if (lane_ == stream) {
    ++stream_version_[mine];
    at_issue_[mine].reset();
  }
}

void Clocks::set() {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(pool_.size()));
    pool_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slot_of_[entry_] = slot;
  pool_[slot] = clocks_[lane_];
  pool_[slot][lane_] = position_ + 1;
  clock_ = &pool_[slot];
}

void Clocks::take(std::uint32_t set) {
  join(clocks_[lane_], pool_[slot_of_[set]]);
  free_.push_back(slot_of_[set]);
}

void Clocks::join_stream(std::uint32_t stream, Clock& into) const {
  for (std::uint32_t queue = 0; queue < lanes_.queues(); ++queue) {
    const std::uint32_t lane = lanes_.lane(stream, queue);
    join(into, clocks_[lane]);
    into[lane] = ran_[lane];
  }
}

void Clocks::meet(std::uint32_t stream) {
  const std::uint32_t meeting = meetings_[stream]++;
  if (meeting == met_.size()) {
    met_.emplace_back(clocks_.size());
    for (std::uint32_t other = 0; other < lanes_.streams(); ++other) join_stream(other, met_.back());
  }
  join(clocks_[lane_], met_[meeting]);
}

}  // namespace inlay::npu
