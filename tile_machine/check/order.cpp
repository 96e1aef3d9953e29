#include "tile_machine/check/order.hpp"

#include <algorithm>
#include <deque>

#include "tile_machine/events/lanes.hpp"

namespace inlay::npu {
namespace {

void match(const EventLog& log, const Device& device, const std::vector<bool>& dropped, Order& order) {
  order.room_of.assign(log.entries.size(), no_entry);
  order.turn_of.assign(log.entries.size(), no_entry);
  const std::vector<Channel> channels = channels_of(log, dropped);
  order.partner_of = partners_of(log, channels);
  const Lanes lanes(log, device);
  for (const auto& [sets, waits] : channels) {
    const bool streams = !sets.empty() && log.entries[sets.front()].event == Event::stream_set;
    const std::size_t depth = std::max(1u, streams ? device.sync.stream_depth : device.sync.depth);
    for (const auto* side : {&sets, &waits})
      for (std::size_t n = 1; n < side->size(); ++n)
        if (lanes.lane_of(log.entries[(*side)[n - 1]]) != lanes.lane_of(log.entries[(*side)[n]]))
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
  Player(const EventLog& log, const Device& device, const std::vector<bool>& dropped, Order& order)
      : log_(log),
        lanes_(log, device),
        order_(order),
        streams_(lanes_.streams()),
        waiting_(lanes_.lanes()),
        ran_(log.entries.size()) {
    for (std::uint32_t e = 0; e < log.entries.size(); ++e)
      if (dropped.empty() || !dropped[e]) streams_[lanes_.stream_of(log.entries[e])].issued.push_back(e);
  }

  void play() {
    order_.steps.reserve(log_.entries.size());
    for (now_ = 0; now_ < log_.entries.size(); ++now_) {
      awake_.push_back(lanes_.stream_of(log_.entries[now_]));
      while (!awake_.empty()) {
        const std::uint32_t stream = awake_.back();
        awake_.pop_back();
        advance(stream);
      }
    }
    for (const Stream& stream : streams_)
      if (stream.next < stream.issued.size()) order_.blocked.push_back(stream.issued[stream.next]);
    for (const auto& waiting : waiting_)
      if (!waiting.empty()) order_.blocked.push_back(waiting.front());
    std::sort(order_.blocked.begin(), order_.blocked.end());
  }

 private:
  struct Stream {
    std::vector<std::uint32_t> issued;
    std::size_t next = 0;
    std::uint32_t meetings = 0;  // sync_all's that it has come to
    bool met = false;            // it stands at one
    std::size_t pending = 0;     // entries in its queues
  };

  void advance(std::uint32_t s) {
    Stream& stream = streams_[s];
    for (std::uint32_t queue = 0; stream.pending > 0 && queue < lanes_.queues(); ++queue)
      drain(stream, lanes_.lane(s, queue));
    while (stream.next < stream.issued.size() && stream.issued[stream.next] <= now_) {
      const std::uint32_t e = stream.issued[stream.next];
      const std::uint32_t lane = lanes_.lane_of(log_.entries[e]);
      if (lane == lanes_.scalar_lane(s)) {
        if (!stream_can_run(s, e)) return;
        ++stream.next;
        run(e);
      } else {
        ++stream.next;
        if (waiting_[lane].empty() && can_run(e)) {
          run(e);
        } else {
          order_.steps.push_back({e, true});
          waiting_[lane].push_back(e);
          ++stream.pending;
        }
      }
    }
  }

  void drain(Stream& stream, std::uint32_t lane) {
    while (!waiting_[lane].empty() && can_run(waiting_[lane].front())) {
      const std::uint32_t e = waiting_[lane].front();
      waiting_[lane].pop_front();
      --stream.pending;
      run(e);
    }
  }

  bool can_run(std::uint32_t e) const {
    const std::uint32_t set = order_.partner_of[e];
    return !waits(log_.entries[e].event) || set == no_entry || ran_[set];
  }

  bool stream_can_run(std::uint32_t s, std::uint32_t e) {
    const Event event = log_.entries[e].event;
    if (event != Event::barrier_all && event != Event::sync_all) return can_run(e);
    Stream& stream = streams_[s];
    if (stream.pending > 0) return false;
    if (event == Event::barrier_all) return true;
    const auto all_met = [&] {
      return std::all_of(streams_.begin(), streams_.end(),
                         [&](const Stream& other) { return other.meetings >= stream.meetings; });
    };
    if (!stream.met) {
      stream.met = true;
      ++stream.meetings;
      for (std::uint32_t other = 0; all_met() && other < streams_.size(); ++other)
        if (other != s) awake_.push_back(other);
    }
    if (!all_met()) return false;
    stream.met = false;
    return true;
  }

  void run(std::uint32_t e) {
    ran_[e] = true;
    order_.steps.push_back({e, false});
    const std::uint32_t waiter = order_.partner_of[e];
    if (sets(log_.entries[e].event) && waiter != no_entry) awake_.push_back(lanes_.stream_of(log_.entries[waiter]));
  }

  const EventLog& log_;
  Lanes lanes_;
  Order& order_;
  std::vector<Stream> streams_;
  std::vector<std::deque<std::uint32_t>> waiting_;  // by lane: entered, not yet run
  std::vector<bool> ran_;
  std::vector<std::uint32_t> awake_;
  std::uint32_t now_ = 0;
};

}  // namespace

Order order_of(const EventLog& log, const Device& device, const std::vector<bool>& dropped) {
  Order order;
  match(log, device, dropped, order);
  Player(log, device, dropped, order).play();
  return order;
}

}  // namespace inlay::npu
