#include "npu_kernels/machine/order.hpp"

#include <algorithm>
#include <deque>

namespace inlay::npu {
namespace {

struct Channel {
  std::vector<std::uint32_t> sets, waits;  // in order of issue
};

// Channels by their key, found by two look-ups in tables that grow with the ids in use.
class Channels {
 public:
  explicit Channels(std::uint16_t cores) : inner_(cores * pipes * pipes), cross_(cores) {}

  Channel& of(const Entry& entry) {
    const bool cross = entry.event == Event::cross_set || entry.event == Event::cross_wait;
    auto& ids = !cross ? inner_[(entry.core * pipes + static_cast<std::size_t>(entry.from)) * pipes +
                                static_cast<std::size_t>(entry.to)]
                       : cross_[entry.event == Event::cross_set ? entry.peer : entry.core];
    if (ids.size() <= entry.flag) ids.resize(entry.flag + std::size_t{1}, no_entry);
    if (ids[entry.flag] == no_entry) {
      ids[entry.flag] = static_cast<std::uint32_t>(channels_.size());
      channels_.emplace_back();
    }
    return channels_[ids[entry.flag]];
  }
  const std::vector<Channel>& all() const { return channels_; }

 private:
  std::vector<std::vector<std::uint32_t>> inner_, cross_;
  std::vector<Channel> channels_;
};

void match(const Tape& tape, const Device& device, const std::vector<bool>& dropped, Order& order) {
  order.set_of.assign(tape.entries.size(), no_entry);
  order.room_of.assign(tape.entries.size(), no_entry);
  order.turn_of.assign(tape.entries.size(), no_entry);
  Channels channels(tape.cores);
  for (std::uint32_t e = 0; e < tape.entries.size(); ++e) {
    if (!dropped.empty() && dropped[e]) continue;
    const Entry& entry = tape.entries[e];
    if (entry.event == Event::set || entry.event == Event::cross_set) channels.of(entry).sets.push_back(e);
    if (entry.event == Event::wait || entry.event == Event::cross_wait) channels.of(entry).waits.push_back(e);
  }
  const std::size_t depth = std::max<std::size_t>(1, device.sync.depth);
  const Queues queues(device);
  for (const auto& [sets, waits] : channels.all()) {
    for (const auto* side : {&sets, &waits})
      for (std::size_t n = 1; n < side->size(); ++n)
        if (queues.of(tape.entries[(*side)[n - 1]]) != queues.of(tape.entries[(*side)[n]]))
          order.turn_of[(*side)[n]] = (*side)[n - 1];
    for (std::size_t n = 0; n < sets.size(); ++n) {
      if (n < waits.size()) order.set_of[waits[n]] = sets[n];
      if (n >= waits.size()) order.leftover_sets.push_back(sets[n]);
      if (n < depth) continue;
      if (n - depth < waits.size()) order.room_of[sets[n]] = waits[n - depth];
      if (n - depth >= waits.size()) order.overruns.push_back(sets[n]);
    }
    for (std::size_t n = sets.size(); n < waits.size(); ++n) order.unpaired_waits.push_back(waits[n]);
  }
  for (auto* found : {&order.leftover_sets, &order.overruns, &order.unpaired_waits})
    std::sort(found->begin(), found->end());
}

class Player {
 public:
  Player(const Tape& tape, const Device& device, const std::vector<bool>& dropped, Order& order)
      : tape_(tape),
        queues_(device),
        order_(order),
        cores_(tape.cores),
        waiting_(queues_.count(tape)),
        ran_(tape.entries.size()),
        waiter_of_(tape.entries.size(), no_entry) {
    for (std::uint32_t e = 0; e < tape.entries.size(); ++e) {
      if (order.set_of[e] != no_entry) waiter_of_[order.set_of[e]] = e;
      if (dropped.empty() || !dropped[e]) cores_[tape.entries[e].core].issued.push_back(e);
    }
  }

  void play() {
    order_.steps.reserve(tape_.entries.size());
    for (now_ = 0; now_ < tape_.entries.size(); ++now_) {
      awake_.push_back(tape_.entries[now_].core);
      while (!awake_.empty()) {
        const std::uint16_t core = awake_.back();
        awake_.pop_back();
        advance(core);
      }
    }
    for (const Core& core : cores_)
      if (core.next < core.issued.size()) order_.blocked.push_back(core.issued[core.next]);
    for (const auto& waiting : waiting_)
      if (!waiting.empty()) order_.blocked.push_back(waiting.front());
    std::sort(order_.blocked.begin(), order_.blocked.end());
  }

 private:
  struct Core {
    std::vector<std::uint32_t> issued;
    std::size_t next = 0;
    std::uint32_t meetings = 0;  // sync_all's that the core has come to
    bool met = false;            // it stands at one
    std::size_t pending = 0;     // entries in its queues
  };

  void advance(std::uint16_t c) {
    Core& core = cores_[c];
    for (std::uint32_t q = c * queues_.of_core(); core.pending > 0 && q < (c + 1u) * queues_.of_core(); ++q)
      drain(core, q);
    while (core.next < core.issued.size() && core.issued[core.next] <= now_) {
      const std::uint32_t e = core.issued[core.next];
      const std::uint32_t q = queues_.of(tape_.entries[e]);
      if (q == queues_.stream(c)) {
        if (!stream_can_run(c, e)) return;
        ++core.next;
        run(e);
      } else {
        ++core.next;
        if (waiting_[q].empty() && can_run(e)) {
          run(e);
        } else {
          order_.steps.push_back({e, true});
          waiting_[q].push_back(e);
          ++core.pending;
        }
      }
    }
  }

  void drain(Core& core, std::uint32_t q) {
    while (!waiting_[q].empty() && can_run(waiting_[q].front())) {
      const std::uint32_t e = waiting_[q].front();
      waiting_[q].pop_front();
      --core.pending;
      run(e);
    }
  }

  bool can_run(std::uint32_t e) const { return order_.set_of[e] == no_entry || ran_[order_.set_of[e]]; }

  bool stream_can_run(std::uint16_t c, std::uint32_t e) {
    const Event event = tape_.entries[e].event;
    if (event != Event::barrier_all && event != Event::sync_all) return can_run(e);
    Core& core = cores_[c];
    if (core.pending > 0) return false;
    if (event == Event::barrier_all) return true;
    const auto all_met = [&] {
      return std::all_of(cores_.begin(), cores_.end(),
                         [&](const Core& other) { return other.meetings >= core.meetings; });
    };
    if (!core.met) {
      core.met = true;
      ++core.meetings;
      for (std::uint16_t other = 0; all_met() && other < cores_.size(); ++other)
        if (other != c) awake_.push_back(other);
    }
    if (!all_met()) return false;
    core.met = false;
    return true;
  }

  void run(std::uint32_t e) {
    ran_[e] = true;
    order_.steps.push_back({e, false});
    if (waiter_of_[e] != no_entry) awake_.push_back(tape_.entries[waiter_of_[e]].core);
  }

  const Tape& tape_;
  Queues queues_;
  Order& order_;
  std::vector<Core> cores_;
  std::vector<std::deque<std::uint32_t>> waiting_;  // by queue: entered, not yet run
  std::vector<bool> ran_;
  std::vector<std::uint32_t> waiter_of_;
  std::vector<std::uint16_t> awake_;
  std::uint32_t now_ = 0;
};

}  // namespace

std::uint32_t Queues::of(const Entry& entry) const {
  switch (entry.event) {
    case Event::set: return index(entry.core, entry.from);
    case Event::wait: return index(entry.core, entry.to);
    case Event::work:
    case Event::barrier:
    case Event::cross_set:
    case Event::cross_wait: return index(entry.core, entry.pipe);
    case Event::barrier_all:
    case Event::sync_all:
    case Event::allocate:
    case Event::release: break;
  }
  return stream(entry.core);
}

Order order_of(const Tape& tape, const Device& device, const std::vector<bool>& dropped) {
  Order order;
  match(tape, device, dropped, order);
  Player(tape, device, dropped, order).play();
  return order;
}

}  // namespace inlay::npu
