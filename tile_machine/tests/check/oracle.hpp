// The checker's oracle: the rules of log.hpp as a graph, its transitive closure as bit sets, bytes by
// comparing every run with every run. Slow, and written without a look at the checker.
//
// Three nodes for each entry: it starts; it is done; it and all before it in its queue are done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"

namespace inlay::npu::test {

struct Oracle {
  using Pair = std::tuple<std::uint32_t, std::uint32_t, ReportKind>;

  std::set<Pair> races;
  std::set<std::uint32_t> unpaired_waits, leftover_sets, overruns, ambiguous;
  // Reads of bytes that no write reaches before them in any run; and those, too, of which some run has none.
  std::set<std::uint32_t> surely_uninitialised, maybe_uninitialised;
  bool deadlock = false;

  bool clean() const {
    return races.empty() && unpaired_waits.empty() && leftover_sets.empty() && overruns.empty() && ambiguous.empty() &&
           surely_uninitialised.empty() && !deadlock;
  }

  Oracle(const EventLog& log, const Device& device) : log_(log), device_(device) {
    nodes_ = 3 * log.entries.size();
    edges_.resize(nodes_);
    connect();
    if (!deadlock) close();
    if (deadlock) return;
    find_races();
    find_uninitialised();
    find_overruns();
    find_ambiguous();
  }

  bool before(std::uint32_t a, std::uint32_t b) const { return reaches(done(a), start(b)); }

 private:
  enum class Between { pipes, streams, cores };  // what a channel joins

  std::size_t streams() const { return log_.cores * log_.streams.size(); }
  std::size_t stream_of(const Entry& entry) const { return entry.core * log_.streams.size() + entry.stream; }
  static std::uint32_t start(std::uint32_t e) { return 3 * e; }
  static std::uint32_t done(std::uint32_t e) { return 3 * e + 1; }
  static std::uint32_t all_done(std::uint32_t e) { return 3 * e + 2; }

  void edge(std::uint32_t from, std::uint32_t to) { edges_[from].push_back(to); }
  std::uint8_t queue_of(Pipe pipe) const { return device_.queue_of[static_cast<std::size_t>(pipe)]; }
  std::uint8_t queue_of(const Entry& entry) const {
    switch (entry.event) {
      case Event::set: return queue_of(entry.from);
      case Event::wait: return queue_of(entry.to);
      case Event::work:
      case Event::barrier:
      case Event::stream_set:
      case Event::stream_wait:
      case Event::cross_set:
      case Event::cross_wait: return queue_of(entry.pipe);
      default: return queue_of(Pipe::scalar);
    }
  }

  void connect() {
    const std::uint32_t none = no_entry;
    using Key = std::tuple<Between, int, int, int, int, int>;
    std::map<Key, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> channels;
    std::vector<std::vector<std::uint32_t>> last(streams(), std::vector<std::uint32_t>(device_.queues.size(), none));
    std::vector<std::vector<std::uint32_t>> meetings(streams());
    std::map<std::uint32_t, std::vector<std::uint32_t>> arrived;  // sync_all: the ends of its stream's queues
    const std::uint8_t stream = queue_of(Pipe::scalar);
    for (std::uint32_t e = 0; e < log_.entries.size(); ++e) {
      const Entry& entry = log_.entries[e];
      auto& ends = last[stream_of(entry)];
      const std::uint8_t queue = queue_of(entry);
      edge(start(e), done(e));
      edge(done(e), all_done(e));
      if (ends[stream] != none) edge(done(ends[stream]), start(e));
      if (const std::uint32_t previous = ends[queue]; previous != none) {
        const Event event = log_.entries[previous].event;
        edge(start(previous), start(e));
        edge(all_done(previous), all_done(e));
        if (device_.queues[queue].in_order_visible || event == Event::wait || event == Event::stream_wait ||
            event == Event::cross_wait || event == Event::barrier)
          edge(done(previous), start(e));
        if (entry.event == Event::set || entry.event == Event::stream_set || entry.event == Event::cross_set ||
            entry.event == Event::barrier)
          edge(all_done(previous), done(e));
      }
      const int from = static_cast<int>(entry.from), to = static_cast<int>(entry.to);
      const int core = entry.core, mine = entry.stream, peer = entry.peer_stream, flag = entry.flag;
      const auto channel = [&](const Key& key) -> auto& { return channels[key]; };
      using enum Between;
      if (entry.event == Event::set) channel({pipes, core, mine, from, to, flag}).first.push_back(e);
      if (entry.event == Event::wait) channel({pipes, core, mine, from, to, flag}).second.push_back(e);
      if (entry.event == Event::stream_set) channel({streams, core, mine, peer, 0, flag}).first.push_back(e);
      if (entry.event == Event::stream_wait) channel({streams, core, peer, mine, 0, flag}).second.push_back(e);
      if (entry.event == Event::cross_set) channel({cores, entry.peer, mine, 0, 0, flag}).first.push_back(e);
      if (entry.event == Event::cross_wait) channel({cores, core, mine, 0, 0, flag}).second.push_back(e);
      if (entry.event == Event::barrier_all)
        for (const std::uint32_t end : ends)
          if (end != none) edge(all_done(end), done(e));
      if (entry.event == Event::sync_all) {
        meetings[stream_of(entry)].push_back(e);
        arrived[e] = ends;
      }
      ends[queue] = e;
    }
    for (const auto& [key, channel] : channels) {
      const auto& [sets, waits] = channel;
      const std::size_t depth = std::get<0>(key) == Between::streams ? device_.sync.stream_depth : device_.sync.depth;
      for (std::size_t n = 0; n < std::min(sets.size(), waits.size()); ++n) edge(done(sets[n]), done(waits[n]));
      for (std::size_t n = sets.size(); n < waits.size(); ++n) unpaired_waits.insert(waits[n]);
      for (std::size_t n = waits.size(); n < sets.size(); ++n) leftover_sets.insert(sets[n]);
      for (const auto* side : {&sets, &waits})
        for (std::size_t n = 1; n < side->size(); ++n) neighbours_.emplace_back((*side)[n - 1], (*side)[n]);
      for (std::size_t n = depth; n < sets.size(); ++n)
        room_.emplace_back(sets[n], n - depth < waits.size() ? waits[n - depth] : none);
    }
    for (const auto& mine : meetings) {
      if (mine.size() != meetings.front().size()) deadlock = true;
      for (const auto& other : meetings)
        for (std::size_t n = 0; n < std::min(mine.size(), other.size()); ++n) {
          edge(start(mine[n]), done(other[n]));
          for (const std::uint32_t end : arrived[mine[n]])
            if (end != none) edge(all_done(end), done(other[n]));
        }
    }
  }

  void close() {
    std::vector<std::uint32_t> order, missing(nodes_);
    for (const auto& targets : edges_)
      for (const std::uint32_t target : targets) ++missing[target];
    for (std::uint32_t node = 0; node < nodes_; ++node)
      if (missing[node] == 0) order.push_back(node);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const std::uint32_t target : edges_[order[i]])
        if (--missing[target] == 0) order.push_back(target);
    deadlock = order.size() < nodes_;
    words_ = (nodes_ + 63) / 64;
    reach_.assign(nodes_ * words_, 0);
    place_.resize(nodes_);
    for (std::uint32_t i = 0; i < order.size(); ++i) place_[order[i]] = i;
    // By its place in that order a node reaches none before it.
    for (std::size_t from = order.size(); from-- > 0;)
      for (const std::uint32_t node : edges_[order[from]]) {
        const std::size_t to = place_[node];
        reach_[from * words_ + to / 64] |= std::uint64_t{1} << to % 64;
        for (std::size_t w = to / 64; w < words_; ++w) reach_[from * words_ + w] |= reach_[to * words_ + w];
      }
  }

  bool reaches(std::uint32_t a, std::uint32_t b) const {
    const std::size_t from = place_[a], to = place_[b];
    return reach_[from * words_ + to / 64] >> to % 64 & 1;
  }

  using Intervals = std::vector<std::array<std::uint64_t, 2>>;
  static Intervals intervals(const Footprint& footprint) {
    Intervals all;
    for (std::uint64_t run = 0; run < footprint.runs && footprint.run_bytes > 0; ++run)
      all.push_back(
          {footprint.begin + run * footprint.stride, footprint.begin + run * footprint.stride + footprint.run_bytes});
    return all;
  }
  // Behind its last byte; of no run, its begin.
  static std::uint64_t last_of(const Footprint& footprint) {
    return footprint.runs == 0 ? footprint.begin
                               : footprint.begin + (footprint.runs - 1) * footprint.stride + footprint.run_bytes;
  }
  static bool meet(const Intervals& a, const Intervals& b) {
    for (const auto& x : a)
      for (const auto& y : b)
        if (x[0] < y[1] && y[0] < x[1]) return true;
    return false;
  }

  template <class Visit> void each_footprint(const Entry& entry, Visit&& visit) const {
    for (std::uint32_t f = 0; f < entry.footprint_count && entry.event == Event::work; ++f)
      visit(log_.footprints[entry.footprints + f]);
  }

  void find_races() {
    std::vector<std::uint32_t> work;
    for (std::uint32_t e = 0; e < log_.entries.size(); ++e)
      if (log_.entries[e].event == Event::work) work.push_back(e);
    for (const std::uint32_t b : work)
      for (const std::uint32_t a : work) {
        if (a >= b || before(a, b) || before(b, a)) continue;
        const Entry &first = log_.entries[a], &second = log_.entries[b];
        std::set<ReportKind> kinds;
        each_footprint(first, [&](const Footprint& x) {
          each_footprint(second, [&](const Footprint& y) {
            if (x.memory != y.memory || (x.memory != 0 && stream_of(first) != stream_of(second))) return;
            if ((!x.write && !y.write) || (x.atomic && y.atomic) || !meet(intervals(x), intervals(y))) return;
            kinds.insert(first.core != second.core ? ReportKind::core_overlap
                         : !x.write                ? ReportKind::race_war
                         : y.write                 ? ReportKind::race_waw
                                                   : ReportKind::race_raw);
          });
        });
        if (!kinds.empty()) races.insert({a, b, *kinds.begin()});
      }
  }

  void find_uninitialised() {
    std::map<std::uint32_t, std::uint32_t> allocated;  // buffer: entry
    for (std::uint32_t e = 0; e < log_.entries.size(); ++e)
      if (log_.entries[e].event == Event::allocate) allocated[log_.entries[e].buffer] = e;
    if (allocated.empty()) return;
    std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, Footprint>>> writes;  // by buffer
    for (std::uint32_t e = 0; e < log_.entries.size(); ++e)
      each_footprint(log_.entries[e], [&](const Footprint& footprint) {
        if (footprint.write) writes[footprint.buffer].emplace_back(e, footprint);
      });
    for (std::uint32_t e = 0; e < log_.entries.size(); ++e)
      each_footprint(log_.entries[e], [&](const Footprint& footprint) {
        if (footprint.write || allocated.count(footprint.buffer) == 0) return;
        const Buffer& buffer = log_.buffers[footprint.buffer];
        Intervals sure, maybe;
        for (const auto& [w, written] : writes[footprint.buffer]) {
          if (w == e || last_of(written) <= footprint.begin || written.begin >= last_of(footprint) || before(e, w))
            continue;
          const Intervals all = intervals(written);
          maybe.insert(maybe.end(), all.begin(), all.end());
          if (before(w, e)) sure.insert(sure.end(), all.begin(), all.end());
        }
        for (Intervals* covers : {&sure, &maybe}) {
          std::sort(covers->begin(), covers->end());
          if (!covered(intervals(footprint), *covers, buffer))
            (covers == &sure ? maybe_uninitialised : surely_uninitialised).insert(e);
        }
      });
  }

  static bool covered(const Intervals& reads, const Intervals& writes, const Buffer& buffer) {
    for (const auto& [first, last] : reads) {
      std::uint64_t at = std::max(first, buffer.begin);
      const std::uint64_t end = std::min(last, buffer.begin + buffer.bytes);
      for (const auto& write : writes)
        if (write[0] <= at) at = std::max(at, write[1]);
      if (at < end) return false;
    }
    return true;
  }

  // Neighbours of one queue have their order from it. A wait must start after the one before it: an order
  // that comes from its own set does not hold if it takes another.
  void find_ambiguous() {
    for (const auto& [a, b] : neighbours_)
      if ((stream_of(log_.entries[a]) != stream_of(log_.entries[b]) ||
           queue_of(log_.entries[a]) != queue_of(log_.entries[b])) &&
          !reaches(done(a), waits(log_.entries[b].event) ? start(b) : done(b)))
        ambiguous.insert(b);
  }

  void find_overruns() {
    for (const auto& [set, wait] : room_)
      if (wait == no_entry || !reaches(done(wait), done(set))) overruns.insert(set);
  }

  const EventLog& log_;
  const Device& device_;
  std::size_t nodes_ = 0, words_ = 0;
  std::vector<std::vector<std::uint32_t>> edges_;
  std::vector<std::uint32_t> place_;  // of a node, in an order of all edges
  std::vector<std::uint64_t> reach_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> room_, neighbours_;
};

}  // namespace inlay::npu::test
