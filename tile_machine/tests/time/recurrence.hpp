// The oracle of the timing model: the recurrence that tile_machine/time/timing.hpp states, entry by entry.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <vector>

#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

// For logs in which each entry follows all it depends on, as random_log writes them. Durations are given:
// sharing is not its matter.
class Recurrence {
 public:
  // Of an entry: its head, and the rest, which begins when its head is over and the entry before it has ended.
  struct Parts {
    Tick head = 0, rest = 0, granule = 0;  // of its own units
  };

  Recurrence(const EventLog& log, const Device& device) : log_(log), device_(device) {
    clock_.resize(log.cores * log.streams.size());
    lanes_.resize(clock_.size() * pipes);
  }

  // parts(i, previous): of entry i, `previous` being when the one before it in its queue ended.
  template <class PartsOf> std::vector<Span> spans(PartsOf&& parts_of) {
    std::vector<Span> result;
    for (std::uint32_t i = 0; i < log_.entries.size(); ++i) {
      const Entry& entry = log_.entries[i];
      if (entry.event == Event::sync_all) {  // random_log writes one for each stream, in a row
        Tick meeting = 0;
        for (Tick other : clock_) meeting = std::max(meeting, other);
        for (const Lane& lane : lanes_) meeting = std::max(meeting, lane.free);
        for (Tick& clock : clock_) {
          const Parts parts = parts_of(i++, 0);
          result.push_back({clock, meeting, meeting + parts.head + parts.rest});
          clock = result.back().ended;
        }
        --i;
        continue;
      }
      Lane& lane = lanes_[stream_of(entry) * pipes + static_cast<std::size_t>(entry.pipe)];
      const Parts parts = parts_of(i, lane.free);
      const Span span = entry.pipe == Pipe::scalar ? on_stream(entry, parts) : in_queue(entry, lane, parts);
      if (sets(entry.event)) {
        const bool unit = entry.event == Event::set && entry.unit && device_.sync.unit_flag_bytes > 0 && lane.leads;
        const Tick flight = entry.event == Event::stream_set ? to_ticks(device_.sync.stream_cycles) : 0;
        channel(entry).push_back({unit, span.ended + flight, lane.first_granule, lane.work_ended});
      }
      result.push_back(span);
    }
    return result;
  }

 private:
  std::size_t stream_of(const Entry& entry) const { return entry.core * log_.streams.size() + entry.stream; }

  struct Lane {
    Tick free = 0;             // the last entry has ended
    Tick from = 0;             // where entries overlap: the next one may start
    std::vector<Tick> starts;  // of all entries
    std::vector<Tick> ends;    // of transfers
    // Of its last work: does it lead by a unit flag, when was its first granule done, and when all of it.
    bool leads = false;
    Tick first_granule = 0, work_ended = 0;
    // Its next work follows one that ends then.
    bool follows = false;
    Tick leader_ended = 0;
  };
  struct Signal {
    bool unit = false;
    Tick at = 0, first_granule = 0, leader_ended = 0;
  };

  Span on_stream(const Entry& entry, const Parts& parts) {
    const std::size_t stream = stream_of(entry);
    Tick& clock = clock_[stream];
    Span span{.issued = clock};
    span.started = std::max(clock, flag(entry, nullptr));
    if (entry.event == Event::barrier_all)
      for (int pipe = 0; pipe < pipes; ++pipe)
        span.started = std::max(span.started, lanes_[stream * pipes + static_cast<std::size_t>(pipe)].free);
    clock = span.ended = span.started + parts.head + parts.rest;
    return span;
  }

  Span in_queue(const Entry& entry, Lane& lane, const Parts& parts) {
    const Queue& queue = device_.queues[static_cast<std::size_t>(entry.pipe)];
    const bool work = entry.event == Event::work, transfer = work && entry.work.unit == Unit::dma;
    const bool is_wait = waits(entry.event);
    const bool overlaps = queue.outstanding > 1 && (transfer || is_wait || sets(entry.event));
    Tick& clock = clock_[stream_of(entry)];
    clock += to_ticks(queue.issue_cycles);
    if (lane.starts.size() >= queue.depth) clock = std::max(clock, lane.starts[lane.starts.size() - queue.depth]);

    Span span{.issued = clock};
    span.started = std::max({clock, flag(entry, &lane), overlaps ? lane.from : lane.free});
    if (overlaps && transfer && lane.ends.size() >= queue.outstanding)
      span.started = std::max(span.started, lane.ends[lane.ends.size() - queue.outstanding]);
    const Tick moves = std::max(span.started + parts.head, lane.free);
    span.ended = moves + parts.rest;

    if (work) {
      const bool granular = transfer || entry.work.unit == Unit::matrix;
      if (granular && lane.follows) span.ended = std::max(span.ended, lane.leader_ended + parts.granule);
      lane.follows = false;
      lane.leads = granular;
      lane.first_granule = moves + parts.granule;
      lane.work_ended = span.ended;
    }
    lane.free = span.ended;
    lane.from = !overlaps ? span.ended : is_wait ? span.started + parts.head : span.started;
    lane.starts.push_back(span.started);
    if (transfer) lane.ends.push_back(span.ended);
    return span;
  }

  std::deque<Signal>& channel(const Entry& entry) {
    const int core = entry.core, mine = entry.stream, peer = entry.peer_stream, flag = entry.flag;
    switch (entry.event) {
      case Event::stream_set: return channels_[{1, core, mine, peer, 0, flag}];
      case Event::stream_wait: return channels_[{1, core, peer, mine, 0, flag}];
      case Event::cross_set: return channels_[{2, entry.peer, mine, 0, 0, flag}];
      case Event::cross_wait: return channels_[{2, core, mine, 0, 0, flag}];
      default: return channels_[{0, core, mine, static_cast<int>(entry.from), static_cast<int>(entry.to), flag}];
    }
  }
  Tick flag(const Entry& entry, Lane* lane) {
    if (!waits(entry.event)) return 0;
    auto& set = channel(entry);
    const Signal signal = set.front();
    set.pop_front();
    if (!signal.unit || lane == nullptr) return signal.at;  // the stream follows nothing
    lane->follows = true;
    lane->leader_ended = signal.leader_ended;
    return signal.first_granule;
  }

  const EventLog& log_;
  const Device& device_;
  std::vector<Tick> clock_;  // of streams
  std::vector<Lane> lanes_;
  std::map<std::array<int, 6>, std::deque<Signal>> channels_;
};

}  // namespace inlay::npu
