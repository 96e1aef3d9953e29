#include "npu_kernels/machine/clocks.hpp"

#include <algorithm>

namespace inlay::npu {
namespace {

void join(std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

}  // namespace

Clocks::Clocks(const Tape& tape, const Device& device, const Order& order)
    : tape_(tape),
      order_(order),
      queues_(device),
      clocks_(queues_.count(tape), Clock(queues_.count(tape))),
      ran_(queues_.count(tape)),
      positions_(tape.entries.size(), no_entry),
      stream_version_(tape.cores),
      seen_version_(queues_.count(tape)),
      at_issue_(tape.cores),
      slot_of_(tape.entries.size(), no_entry),
      meetings_(tape.cores) {
  for (std::uint32_t q = 0; q < queues_.count(tape); ++q)
    visible_.push_back(device.queues[q % queues_.of_core()].in_order_visible);
  for (std::uint16_t core = 0; core < tape.cores; ++core) visible_[queues_.stream(core)] = true;
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
  return wait == no_entry || knows(queues_.of(tape_.entries[wait]), positions_[wait]);
}

bool Clocks::comes_after_its_predecessor() const {
  const std::uint32_t before = order_.turn_of[entry_];
  return before == no_entry || knows(queues_.of(tape_.entries[before]), positions_[before]);
}

void Clocks::enter(std::uint32_t entry) {
  const std::uint16_t core = tape_.entries[entry].core;
  if (!at_issue_[core]) {
    Clock clock = clocks_[queues_.stream(core)];
    clock[queues_.stream(core)] = ran_[queues_.stream(core)];
    at_issue_[core] = std::make_shared<const Clock>(std::move(clock));
  }
  entered_[entry] = at_issue_[core];
}

void Clocks::run() {
  const Entry& entry = tape_.entries[entry_];
  const std::uint32_t stream = queues_.stream(entry.core);
  queue_ = queues_.of(entry);
  position_ = ran_[queue_]++;
  positions_[entry_] = position_;
  Clock& clock = clocks_[queue_];
  clock_ = &clock;
  has_turn_ = true;
  if (const auto entered = entered_.find(entry_); entered != entered_.end()) {
    join(clock, *entered->second);
    entered_.erase(entered);
  } else if (queue_ != stream && seen_version_[queue_] != stream_version_[entry.core]) {
    join(clock, clocks_[stream]);
    clock[stream] = ran_[stream];  // what the stream did is over before it issued this
    seen_version_[queue_] = stream_version_[entry.core];
  }
  if (visible_[queue_]) clock[queue_] = position_;
  switch (entry.event) {
    case Event::work:
    case Event::allocate:
    case Event::release: break;
    case Event::set:
    case Event::cross_set:
      set();
      has_turn_ = comes_after_its_predecessor();
      break;
    case Event::wait:
    case Event::cross_wait:
      has_turn_ = comes_after_its_predecessor();  // what its own set knows does not count: it might get another
      if (order_.set_of[entry_] != no_entry) take(order_.set_of[entry_]);
      break;
    case Event::barrier: clock[queue_] = position_; break;
    case Event::barrier_all: join_core(entry.core, clock); break;
    case Event::sync_all: meet(entry.core); break;
  }
  if (queue_ == stream) {
    ++stream_version_[entry.core];
    at_issue_[entry.core].reset();
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
  pool_[slot] = clocks_[queue_];
  pool_[slot][queue_] = position_ + 1;
  clock_ = &pool_[slot];
}

void Clocks::take(std::uint32_t set) {
  join(clocks_[queue_], pool_[slot_of_[set]]);
  free_.push_back(slot_of_[set]);
}

void Clocks::join_core(std::uint16_t core, Clock& into) const {
  for (std::uint32_t q = core * queues_.of_core(); q < (core + 1u) * queues_.of_core(); ++q) {
    join(into, clocks_[q]);
    into[q] = ran_[q];
  }
}

void Clocks::meet(std::uint16_t core) {
  const std::uint32_t meeting = meetings_[core]++;
  if (meeting == met_.size()) {
    met_.emplace_back(clocks_.size());
    for (std::uint16_t c = 0; c < tape_.cores; ++c) join_core(c, met_.back());
  }
  join(clocks_[queue_], met_[meeting]);
}

}  // namespace inlay::npu
