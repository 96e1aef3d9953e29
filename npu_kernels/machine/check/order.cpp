#include "npu_kernels/machine/check/order.hpp"

#include <algorithm>
#include <deque>

#include "npu_kernels/machine/tape/lanes.hpp"

namespace inlay::npu {
namespace {

void match(const Tape& tape, const Device& device, const std::vector<bool>& dropped, Order& order) {
  order.room_of.assign(tape.entries.size(), no_entry);
  order.turn_of.assign(tape.entries.size(), no_entry);
  const std::vector<Channel> channels = channels_of(tape, dropped);
  order.partner_of = partners_of(tape, channels);
  const std::size_t depth = std::max<std::size_t>(1, device.sync.depth);
  const Lanes lanes(tape, device);
  for (const auto& [sets, waits] : channels) {
    for (const auto* side : {&sets, &waits})
      for (std::size_t n = 1; n < side->size(); ++n)
        if (lanes.lane_of(tape.entries[(*side)[n - 1]]) != lanes.lane_of(tape.entries[(*side)[n]]))
          order.turn_of[(*side)[n]] = (*side)[n - 1];
    for (std::size_t n = 0; n < sets.size(); ++n) {
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
        lanes_(tape, device),
        order_(order),
        cores_(tape.cores),
        waiting_(lanes_.lanes()),
        ran_(tape.entries.size()) {
    for (std::uint32_t e = 0; e < tape.entries.size(); ++e)
      if (dropped.empty() || !dropped[e]) cores_[tape.entries[e].core].issued.push_back(e);
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
    for (std::uint32_t queue = 0; core.pending > 0 && queue < lanes_.queues(); ++queue)
      drain(core, lanes_.lane(c, queue));
    while (core.next < core.issued.size() && core.issued[core.next] <= now_) {
      const std::uint32_t e = core.issued[core.next];
      const std::uint32_t lane = lanes_.lane_of(tape_.entries[e]);
      if (lane == lanes_.scalar_lane(c)) {
        if (!stream_can_run(c, e)) return;
        ++core.next;
        run(e);
      } else {
        ++core.next;
        if (waiting_[lane].empty() && can_run(e)) {
          run(e);
        } else {
          order_.steps.push_back({e, true});
          waiting_[lane].push_back(e);
          ++core.pending;
        }
      }
    }
  }

  void drain(Core& core, std::uint32_t lane) {
    while (!waiting_[lane].empty() && can_run(waiting_[lane].front())) {
      const std::uint32_t e = waiting_[lane].front();
      waiting_[lane].pop_front();
      --core.pending;
      run(e);
    }
  }

  bool can_run(std::uint32_t e) const {
    const std::uint32_t set = order_.partner_of[e];
    return !waits(tape_.entries[e].event) || set == no_entry || ran_[set];
  }

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
    const std::uint32_t waiter = order_.partner_of[e];
    if (sets(tape_.entries[e].event) && waiter != no_entry) awake_.push_back(tape_.entries[waiter].core);
  }

  const Tape& tape_;
  Lanes lanes_;
  Order& order_;
  std::vector<Core> cores_;
  std::vector<std::deque<std::uint32_t>> waiting_;  // by lane: entered, not yet run
  std::vector<bool> ran_;
  std::vector<std::uint16_t> awake_;
  std::uint32_t now_ = 0;
};

}  // namespace

Order order_of(const Tape& tape, const Device& device, const std::vector<bool>& dropped) {
  Order order;
  match(tape, device, dropped, order);
  Player(tape, device, dropped, order).play();
  return order;
}

}  // namespace inlay::npu
