// The oracle of the timing model: the recurrence that npu_kernels/machine/timing.hpp states, entry by entry.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <vector>

#include "npu_kernels/machine/time/timing.hpp"

namespace inlay::npu {

// For tapes in which each entry follows all it depends on, as random_tape writes them. Durations are given:
// sharing is not its matter.
class Recurrence {
 public:
  Recurrence(const Tape& tape, const Device& device) : tape_(tape), device_(device) {
    clock_.resize(tape.cores * tape.streams.size());
    free_.resize(clock_.size() * pipes);
    starts_.resize(clock_.size() * pipes);
  }

  template <class Duration> std::vector<Span> spans(Duration&& duration) {
    std::vector<Span> result;
    for (std::uint32_t i = 0; i < tape_.entries.size(); ++i) {
      const Entry& entry = tape_.entries[i];
      const std::size_t stream = entry.core * tape_.streams.size() + entry.stream;
      Tick& clock = clock_[stream];
      Span span;
      if (entry.event == Event::sync_all) {  // random_tape writes one for each stream, in a row
        Tick meeting = 0;
        for (Tick other : clock_) meeting = std::max(meeting, other);
        for (Tick free : free_) meeting = std::max(meeting, free);
        for (Tick& other : clock_) {
          result.push_back({other, meeting, meeting + duration(i++)});
          other = result.back().ended;
        }
        --i;
        continue;
      }
      if (entry.pipe == Pipe::scalar) {
        span.issued = clock;
        span.started = std::max(clock, flag(entry));
        if (entry.event == Event::barrier_all)
          for (int pipe = 0; pipe < pipes; ++pipe) span.started = std::max(span.started, free_[stream * pipes + pipe]);
        clock = span.ended = span.started + duration(i);
      } else {
        const int pipe = static_cast<int>(entry.pipe);
        Tick& free = free_[stream * pipes + pipe];
        auto& starts = starts_[stream * pipes + pipe];
        const std::size_t depth = device_.queues[pipe].depth;
        clock += to_ticks(device_.queues[pipe].issue_cycles);
        if (starts.size() >= depth) clock = std::max(clock, starts[starts.size() - depth]);
        span.issued = clock;
        span.started = std::max({clock, free, flag(entry)});
        free = span.ended = span.started + duration(i);
        starts.push_back(span.started);
      }
      if (entry.event == Event::stream_set)
        channel(entry).push_back(span.ended + to_ticks(device_.sync.stream_cycles));
      else if (entry.event == Event::set || entry.event == Event::cross_set)
        channel(entry).push_back(span.ended);
      result.push_back(span);
    }
    return result;
  }

 private:
  std::deque<Tick>& channel(const Entry& entry) {
    const int core = entry.core, mine = entry.stream, peer = entry.peer_stream, flag = entry.flag;
    switch (entry.event) {
      case Event::stream_set: return channels_[{1, core, mine, peer, 0, flag}];
      case Event::stream_wait: return channels_[{1, core, peer, mine, 0, flag}];
      case Event::cross_set: return channels_[{2, entry.peer, mine, 0, 0, flag}];
      case Event::cross_wait: return channels_[{2, core, mine, 0, 0, flag}];
      default: return channels_[{0, core, mine, static_cast<int>(entry.from), static_cast<int>(entry.to), flag}];
    }
  }
  Tick flag(const Entry& entry) {
    if (!waits(entry.event)) return 0;
    auto& set = channel(entry);
    const Tick at = set.front();
    set.pop_front();
    return at;
  }

  const Tape& tape_;
  const Device& device_;
  std::vector<Tick> clock_, free_;
  std::vector<std::vector<Tick>> starts_;
  std::map<std::array<int, 6>, std::deque<Tick>> channels_;
};

}  // namespace inlay::npu
