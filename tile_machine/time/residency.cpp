#include "tile_machine/time/residency.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <unordered_set>
#include <utility>

#include "tile_machine/time/line_cache.hpp"

namespace inlay::npu {

namespace {

// Visits the entries of all streams as if they ran side by side. `visit` gives the bytes that an entry moves.
class FusedLinears {
 public:
  FusedLinears(const EventLog& log, const EventOrder& order) : log_(log), order_(order), streams_(order.streams()) {}

  template <class Visit> void each(Visit&& visit) {
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) run_.push({0, stream});
    while (!run_.empty()) {
      const std::uint32_t stream = run_.top().second;
      run_.pop();
      advance(stream, visit);
      if (run_.empty()) release_all();  // a deadlock, which the simulation names, or a wait that only its queue obeys
    }
  }

 private:
  struct Progress {
    std::size_t next = 0;     // of its entries that reach outward
    std::uint64_t moved = 0;  // bytes
    std::uint32_t waits_for = no_entry;
    bool meets = false;
  };

  static bool crosses(Event event) { return event == Event::cross_wait || event == Event::stream_wait; }

  // Until it has moved something or is held back.
  template <class Visit> void advance(std::uint32_t number, Visit& visit) {
    Progress& stream = streams_[number];
    const auto entries = order_.outward(number);
    while (stream.next < entries.size()) {
      const std::uint32_t index = entries[stream.next];
      const Entry& entry = log_.entries[index];
      if (crosses(entry.event)) {
        const std::uint32_t set = order_.partner(index);
        if (set != no_entry && passed_.count(set) == 0 && !given_up_) {
          stream.waits_for = set;
          return;
        }
      } else if (entry.event == Event::sync_all && !stream.meets && !given_up_) {
        stream.meets = true;
        if (++met_ == streams_.size()) meet();
        return;
      }
      stream.meets = false;
      ++stream.next;
      const std::uint64_t bytes = visit(index);
      if (sets(entry.event)) signal(index, stream.moved);
      if (bytes == 0) continue;
      stream.moved += bytes;
      run_.push({stream.moved, number});
      return;
    }
  }

  void signal(std::uint32_t set, std::uint64_t moved) {
    passed_.insert(set);
    const std::uint32_t wait = order_.partner(set);
    if (wait == no_entry) return;
    const std::uint32_t number = order_.stream_of(log_.entries[wait]);
    Progress& stream = streams_[number];
    if (stream.waits_for != set) return;
    stream.waits_for = no_entry;
    stream.moved = std::max(stream.moved, moved);
    run_.push({stream.moved, number});
  }

  void meet() {
    met_ = 0;
    std::uint64_t moved = 0;
    for (const Progress& stream : streams_) moved = std::max(moved, stream.moved);
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream) {
      streams_[stream].moved = moved;
      run_.push({moved, stream});
    }
  }

  void release_all() {
    for (std::uint32_t stream = 0; stream < streams_.size(); ++stream)
      if (streams_[stream].next < order_.outward(stream).size()) {
        given_up_ = true;
        run_.push({streams_[stream].moved, stream});
      }
  }

  const EventLog& log_;
  const EventOrder& order_;
  std::vector<Progress> streams_;
  std::unordered_set<std::uint32_t> passed_;  // sets of other streams
  std::uint32_t met_ = 0;
  bool given_up_ = false;
  using Turn = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> run_;
};

std::span<const Footprint> footprints_of(const EventLog& log, const Entry& entry) {
  return {log.footprints.data() + entry.footprints, entry.footprint_count};
}

std::uint64_t end_of_addresses(const EventLog& log, const EventOrder& order) {
  std::uint64_t end = 0;
  for (std::uint32_t stream = 0; stream < order.streams(); ++stream)
    for (std::uint32_t index : order.outward(stream))
      for (const Footprint& at : footprints_of(log, log.entries[index]))
        if (at.memory == 0 && at.runs > 0) end = std::max(end, at.begin + (at.runs - 1) * at.stride + at.run_bytes);
  return end;
}

class L2 {
 public:
  L2(const EventLog& log, const Device& device, const EventOrder& order)
      : log_(log), device_(device), cache_(device.l2.bytes, device.l2.line, end_of_addresses(log, order)) {}

  Traffic transfer(const Entry& entry) {
    Traffic traffic;
    bool known = false;
    for (const Footprint& at : footprints_of(log_, entry)) {
      if (at.memory != 0 || (at.atomic && !at.write)) continue;  // what an atomic write reads is its own
      known = true;
      touch(at, traffic);
    }
    if (!known) return {.dram = entry.work.bytes};
    traffic.dram += cache_.take_evicted() * device_.l2.line;
    return traffic;
  }

 private:
  void touch(const Footprint& at, Traffic& traffic) {
    const std::uint64_t line = device_.l2.line;
    const bool streamed = at.streamed && device_.l2.hints;
    const bool workspace = at.buffer < log_.buffers.size() && log_.buffers[at.buffer].workspace;
    std::uint64_t from = 0;  // lines below it were counted with the run before
    for (std::uint32_t run = 0; run < at.runs; ++run) {
      const std::uint64_t begin = at.begin + run * at.stride;
      if (at.run_bytes == 0) continue;
      const std::uint64_t last = (begin + at.run_bytes - 1) / line;
      const std::uint64_t first = run > 0 ? std::max(begin / line, from) : begin / line;
      from = std::max(from, last + 1);
      if (first > last) continue;
      LineCache::Lines lines;
      if (!at.write)
        lines = cache_.read(first, last, !streamed);
      else if (streamed)
        lines = {.missing = last - first + 1};
      else {
        if (at.atomic) traffic.dram += cache_.read(first, last, true).missing * line;
        lines = cache_.write(first, last, !workspace);
      }
      traffic.l2 += lines.there * line;
      traffic.dram += lines.missing * line;
    }
  }

  const EventLog& log_;
  const Device& device_;
  LineCache cache_;
};

// The lines that a scalar unit has, the most recent one last.
class ScalarCache {
 public:
  explicit ScalarCache(const ScalarReads& reads) : reads_(reads) {}
  void forget() { lines_.clear(); }
  void forget(std::uint64_t address) { std::erase(lines_, address / reads_.line); }
  bool misses(std::uint64_t address) {
    const std::uint64_t line = address / reads_.line;
    const auto found = std::find(lines_.rbegin(), lines_.rend(), line);
    const bool missing = found == lines_.rend();
    if (!missing)
      lines_.erase(std::next(found).base());
    else if (lines_.size() == reads_.lines)
      lines_.erase(lines_.begin());
    lines_.push_back(line);
    return missing;
  }

 private:
  const ScalarReads& reads_;
  std::vector<std::uint64_t> lines_;
};

// Which scalar reads miss, and where others' writes make a stream's scalar unit forget.
class ScalarCaches {
 public:
  ScalarCaches(const EventLog& log, const Device& device, const EventOrder& order)
      : log_(log), order_(order), caches_(order.streams(), ScalarCache(device.scalar)) {}
  bool misses(const Entry& entry) {
    const bool tends = entry.line != LineVerb::none;  // which takes a way to memory
    bool missing = tends;
    for (const Footprint& at : footprints_of(log_, entry)) {
      if (at.memory != 0) continue;
      ScalarCache& cache = caches_[order_.stream_of(entry)];
      if (tends)
        cache.forget(at.begin);
      else
        missing = cache.misses(at.begin) || missing;
    }
    return missing;
  }
  void forget(const Entry& entry) { caches_[order_.stream_of(entry)].forget(); }

 private:
  const EventLog& log_;
  const EventOrder& order_;
  std::vector<ScalarCache> caches_;
};

}  // namespace

Residency::Residency(const EventLog& log, const Device& device, const EventOrder& order) {
  std::optional<L2> l2;
  if (device.l2.bytes > 0) {
    traffic_.resize(log.entries.size());
    l2.emplace(log, device, order);
  }
  if (!l2 && device.scalar.miss_cycles == 0) return;
  ScalarCaches scalar(log, device, order);
  FusedLinears(log, order).each([&](std::uint32_t index) -> std::uint64_t {
    const Entry& entry = log.entries[index];
    if (entry.event != Event::work) {
      if (!sets(entry.event)) scalar.forget(entry);
    } else if (entry.work.unit == Unit::scalar) {
      if (device.scalar.miss_cycles > 0 && scalar.misses(entry)) misses_.insert(index);
    } else if (l2 && device.paths[entry.work.path].dram) {
      traffic_[index] = l2->transfer(entry);
      return entry.work.bytes;
    }
    return 0;
  });
}

}  // namespace inlay::npu
