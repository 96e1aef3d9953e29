#include "tile_machine/time/trace.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/whole_file.hpp"
#include "tile_machine/events/sites.hpp"
#include "tile_machine/time/critical_path.hpp"

namespace inlay::npu {

namespace {

using nlohmann::json;

// Viewers keep whole nanoseconds and drop a slice that reaches into the next one by as little as one. So
// both ends of a slice are rounded, never its length, and to eighths of a cycle: those are exact in binary and
// whole nanoseconds, whether a viewer rounds or truncates.
std::int64_t eighths(Tick tick) { return std::llround(to_cycles(tick) * 8); }
double microseconds(std::int64_t eighths) { return static_cast<double>(eighths) / 8; }

class Trace {
 public:
  Trace(const EventLog& log, const Device& device, const Timeline& timeline)
      : log_(log),
        device_(device),
        time_(timeline),
        slack_(slacks(log, device, timeline)),
        arrow_(log.entries.size()) {}

  json build() {
    name_threads();
    for (std::uint32_t lane = 0; lane < time_.order.lanes(); ++lane) slices(lane);
    flows();
    bandwidth();
    occupancy();
    std::stable_sort(events_.begin(), events_.end(), [](const Timed& a, const Timed& b) { return a.at < b.at; });
    json all = std::move(names_);
    for (Timed& event : events_) all.push_back(std::move(event.event));
    return {{"traceEvents", std::move(all)},
            {"displayTimeUnit", "ns"},
            {"otherData",
             {{"device", device_.name},
              {"unit", "1 us is 1 cycle of the model"},
              {"makespan_cycles", to_cycles(time_.makespan)}}}};
  }

 private:
  struct Timed {
    Tick at;
    json event;
  };

  void add(Tick at, json event) {
    event["ts"] = microseconds(eighths(at));
    events_.push_back({at, std::move(event)});
  }

  void name_process(std::uint32_t pid, const std::string& process) {
    names_.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", pid}, {"args", {{"name", process}}}});
    names_.push_back({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", pid}, {"args", {{"sort_index", pid}}}});
  }

  void name_threads() {
    for (std::uint32_t core = 0; core < time_.order.cores(); ++core) {
      name_process(process(core), "core " + std::to_string(core));
      for (std::uint32_t of_core = 0; of_core < lanes_of_a_core(); ++of_core) {
        const LaneTime& lane = time_.lanes[core * lanes_of_a_core() + of_core];
        if (lane.entries == 0) continue;
        const json where = {{"ph", "M"}, {"pid", process(core)}, {"tid", thread(of_core)}};
        json named = where, sorted = where;
        named.update({{"name", "thread_name"},
                      {"args", {{"name", queue_name(device_, log_.streams, lane.stream, lane.queue)}}}});
        sorted.update({{"name", "thread_sort_index"}, {"args", {{"sort_index", of_core}}}});
        names_.push_back(std::move(named));
        names_.push_back(std::move(sorted));
      }
    }
    name_process(memory_process(), "global memory");
  }

  // Counted from 1: process and thread 0 are the idle task to Perfetto, which mixes its slices with others'.
  static std::uint32_t process(std::uint32_t core) { return core + 1; }
  std::uint32_t lanes_of_a_core() const { return time_.order.queues() * time_.order.streams_of_a_core(); }
  std::uint32_t thread(std::uint32_t lane) const { return lane % lanes_of_a_core() + 1; }
  std::uint32_t memory_process() const { return process(time_.order.cores()); }

  json arguments(std::uint32_t index) const {
    const Entry& entry = log_.entries[index];
    const Work& work = entry.work;
    json result = {{"line", line_of(entry.site)}, {"slack", to_cycles(slack_[index])}};
    if (work.unit == Unit::matrix) result.update({{"m", work.m}, {"n", work.n}, {"k", work.k}});
    if (work.unit == Unit::dma) result.update({{"bytes", work.bytes}, {"runs", work.runs}});
    if (work.unit == Unit::vector) result.update({{"operation", name(work.op)}, {"elements", work.elements}});
    if (entry.event == Event::work) {
      const Cost cost = cost_of(device_, entry, time_.residency.before(index));
      const Span& span = time_.spans[index];
      result["cycles alone"] = to_cycles(cost.head + cost.units);
      if (work.unit == Unit::dma) result["bytes per cycle"] = achieved(work.bytes, span.ended - span.started);
    }
    return result;
  }

  static double achieved(std::uint64_t bytes, Tick ticks) {
    return ticks > 0 ? static_cast<double>(bytes) / to_cycles(ticks) : 0;
  }

  static bool shown(const Entry& entry) { return entry.event != Event::allocate && entry.event != Event::release; }

  void slices(std::uint32_t lane) {
    Tick free = 0;
    for (std::uint32_t index : time_.order.queue(lane)) {
      const Entry& entry = log_.entries[index];
      const Span& span = time_.spans[index];
      const bool stalls = entry.event != Event::work && !sets(entry.event);
      // Of what is under way beside others: the part after them.
      const Tick begin = std::max(free, stalls ? span.issued : span.started);
      free = span.ended;
      arrow_[index] = std::max(begin, span.started);
      if (!shown(entry)) continue;
      const std::string label = waits(entry.event) ? describe(wait_cause(entry)) : entry.verb;
      const char* category = entry.event == Event::work ? "work" : waits(entry.event) ? "wait" : "sync";
      add(begin, {{"ph", "X"},
                  {"name", label},
                  {"cat", category},
                  {"pid", process(entry.core)},
                  {"tid", thread(lane)},
                  {"dur", microseconds(eighths(span.ended) - eighths(begin))},
                  {"args", arguments(index)}});
    }
  }

  void flows() {
    for (std::uint32_t set = 0; set < log_.entries.size(); ++set) {
      const Entry& from = log_.entries[set];
      const std::uint32_t wait = sets(from.event) ? time_.order.partner(set) : no_entry;
      if (wait == no_entry) continue;
      const auto end = [&](const char* phase, std::uint32_t index) {
        const Entry& entry = log_.entries[index];
        return json{{"ph", phase},
                    {"name", from.event == Event::cross_set ? "cross"
                             : from.ring                    ? "ring"
                                                            : "flag"},
                    {"cat", "flag"},
                    {"id", set},
                    {"bp", "e"},
                    {"pid", process(entry.core)},
                    {"tid", thread(time_.order.lane_of(entry))}};
      };
      add(std::min(arrow_[set], arrow_[wait]), end("s", set));  // by a unit flag out of the work before the set
      add(arrow_[wait], end("f", wait));
    }
  }

  void counter(Tick at, std::uint32_t pid, const std::string& what, const char* unit, double value) {
    add(at, {{"ph", "C"}, {"name", what}, {"pid", pid}, {"args", {{unit, value}}}});
  }

  void bandwidth() {
    for (const BandwidthSample& sample : time_.dram)
      counter(sample.at, memory_process(), "bandwidth", "bytes per cycle", to_bytes_per_cycle(sample.rate));
  }

  void occupancy() {
    for (std::uint32_t stream = 0; stream < time_.order.streams(); ++stream) {
      const std::string mine = stream_name(device_, log_.streams, stream % time_.order.streams_of_a_core());
      const std::string prefix = mine.empty() ? "" : mine + ".";
      std::vector<std::uint64_t> bytes(device_.memories.size());
      for (std::uint32_t index : time_.order.stream(stream)) {
        const Entry& entry = log_.entries[index];
        if (shown(entry) || entry.buffer >= log_.buffers.size()) continue;
        const Buffer& buffer = log_.buffers[entry.buffer];
        if (buffer.memory == 0 || buffer.memory >= bytes.size()) continue;  // global memory is not scratch
        bytes[buffer.memory] += entry.event == Event::allocate ? buffer.bytes : -buffer.bytes;
        counter(time_.spans[index].ended, process(entry.core), prefix + device_.memories[buffer.memory].name, "bytes",
                static_cast<double>(bytes[buffer.memory]));
      }
    }
  }

  const EventLog& log_;
  const Device& device_;
  const Timeline& time_;
  std::vector<Tick> slack_, arrow_;  // by entry; arrow_: where flows meet its slice
  json names_ = json::array();
  std::vector<Timed> events_;
};

}  // namespace

std::string trace_json(const EventLog& log, const Device& device, const Timeline& timeline) {
  return Trace(log, device, timeline).build().dump(-1, ' ', true, json::error_handler_t::replace);
}

Status write_trace(const std::filesystem::path& file, const EventLog& log, const Device& device,
                   const Timeline& timeline) {
  return files::write_whole(file.string(), trace_json(log, device, timeline) + "\n");
}

}  // namespace inlay::npu
