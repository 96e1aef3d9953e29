#include "tile_machine/time/event_order.hpp"

#include <numeric>
#include <string>
#include <tuple>

#include "tile_machine/events/sites.hpp"
#include "tile_machine/time/cost.hpp"

namespace inlay::npu {

namespace {

// The counting sort's first half: counts[i + 1] holds how many; afterwards counts[i] is where part i begins.
void counts_to_begins(std::vector<std::uint32_t>& counts) {
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
}

bool reaches_outward(const Entry& entry) {
  if (entry.event == Event::work) return entry.work.unit == Unit::dma || entry.work.unit == Unit::scalar;
  switch (entry.event) {
    case Event::stream_set:
    case Event::stream_wait:
    case Event::cross_set:
    case Event::cross_wait:
    case Event::sync_all: return true;
    default: return false;
  }
}

Status bad_entry(const Entry& entry, std::size_t i, const std::string& why) {
  return invalid("log.entries[" + std::to_string(i) + "] (" + entry.verb + ", " + line_of(entry.site) + "): " + why);
}

Status check_transfer(const Device& device, const Entry& entry, std::size_t i) {
  const Work& work = entry.work;
  const auto queue_of = [&](Pipe pipe) { return device.queue_of[static_cast<int>(pipe)]; };
  if (queue_of(entry.pipe) == queue_of(Pipe::scalar)) return bad_entry(entry, i, "the scalar unit moves no bytes");
  if (work.path >= device.paths.size())
    return bad_entry(entry, i,
                     "work.path = " + std::to_string(work.path) + "; the device has " +
                         std::to_string(device.paths.size()) + " paths");
  if (work.bytes >= max_transfer_bytes)
    return bad_entry(entry, i, "work.bytes = " + std::to_string(work.bytes) + "; one transfer moves less than 2^34");
  return {};
}

Status check_entry(const EventLog& log, const Device& device, std::size_t i) {
  const Entry& entry = log.entries[i];
  if (entry.core >= log.cores)
    return bad_entry(entry, i, "core = " + std::to_string(entry.core) + "; the log has " + std::to_string(log.cores));
  if (entry.stream >= log.streams.size())
    return bad_entry(
        entry, i,
        "stream = " + std::to_string(entry.stream) + "; a core of the log has " + std::to_string(log.streams.size()));
  const Work& work = entry.work;
  if (entry.event != Event::work) return {};
  if (work.unit == Unit::dma) return check_transfer(device, entry, i);
  if (work.unit == Unit::matrix && !device.rate(work.in, work.out))
    return bad_entry(
        entry, i,
        "the matrix unit has no rate for " + std::string(name(work.in)) + " -> " + std::string(name(work.out)));
  return {};
}

// What the model divides by. The loader checks all of a description; a hand-made one comes here unchecked.
Status check_device(const Device& device) {
  for (std::uint8_t queue : device.queue_of)
    if (queue >= device.queues.size())
      return invalid("device.queue_of = " + std::to_string(queue) + "; the device has " +
                     std::to_string(device.queues.size()) + " queues");
  for (const Queue& queue : device.queues)
    if (queue.depth == 0) return invalid("device.queues: depth of " + queue.name + " = 0; it must be positive");
  bool dram = false;
  for (const Path& path : device.paths) {
    if (!(path.bytes_per_cycle > 0)) return invalid("device.paths: bytes_per_cycle must be positive");
    dram = dram || path.dram;
  }
  if (dram && !(device.dram_bytes_per_cycle > 0 && device.dram_bytes_per_cycle_core > 0))
    return invalid("device.dram_bytes_per_cycle and dram_bytes_per_cycle_core must be positive");
  const MatrixUnit& matrix = device.matrix;
  if (matrix.m_granule == 0 || (matrix.systolic && (matrix.rows == 0 || matrix.columns == 0)))
    return invalid("device.matrix: m_granule, rows and columns must be positive");
  for (const MatrixRate& rate : matrix.rates)
    if (rate.m == 0 || rate.n == 0 || rate.k == 0 || !(rate.cycles > 0))
      return invalid("device.matrix.rates: m, n, k and cycles must be positive");
  return {};
}

// Numbers of works: equal ones have one, unless they push one another out.
class Works {
 public:
  explicit Works(const EventLog& log, std::vector<std::uint32_t>& first) : log_(log), first_(first) {}
  std::uint32_t number(std::uint32_t index) {
    const Work& work = log_.entries[index].work;
    std::uint32_t& known = known_[hash(work) % known_.size()];
    if (known == no_entry || !same(log_.entries[first_[known]].work, work)) {
      known = static_cast<std::uint32_t>(first_.size());
      first_.push_back(index);
    }
    return known;
  }

 private:
  static auto all(const Work& w) {
    return std::tie(w.unit, w.path, w.change, w.turned, w.column, w.op, w.in, w.out, w.m, w.n, w.k, w.rows, w.bytes,
                    w.runs, w.elements);
  }
  static bool same(const Work& a, const Work& b) { return all(a) == all(b); }
  static std::size_t hash(const Work& w) {
    std::uint64_t sum = 0;
    const auto mix = [&](auto value) { sum = (sum ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u; };
    std::apply([&](const auto&... each) { (mix(each), ...); }, all(w));
    return static_cast<std::size_t>(sum >> 40);
  }

  const EventLog& log_;
  std::vector<std::uint32_t>& first_;
  std::vector<std::uint32_t> known_ = std::vector<std::uint32_t>(1 << 12, no_entry);
};

}  // namespace

EventOrder::EventOrder(const EventLog& log, const Device& device)
    : Lanes(log, device),
      streams_(log.entries.size()),
      queued_(log.entries.size()),
      stream_begin_(streams() + 1),
      queue_begin_(lanes() + 1),
      meetings_(streams()),
      outward_(streams()) {}

// Entries are two cache lines each: they are looked at once here, and once for the channels.
Status EventOrder::take(const EventLog& log, const Device& device) {
  kinds_.reserve(log.entries.size());
  Works works(log, works_);
  for (std::uint32_t i = 0; i < log.entries.size(); ++i) {
    if (Status status = check_entry(log, device, i); !status.ok()) return status;
    const Entry& entry = log.entries[i];
    const bool works_here = entry.event == Event::work;
    const EntryKind kind{.lane = lane_of(entry),
                         .stream = stream_of(entry),
                         .work = works_here ? works.number(i) : 0,
                         .event = entry.event,
                         .on_stream = on_stream(entry),
                         .moves = works_here && entry.work.unit == Unit::dma,
                         .multiplies = works_here && entry.work.unit == Unit::matrix,
                         .sets = sets(entry.event),
                         .waits = waits(entry.event),
                         .unit_flag = entry.unit && sets(entry.event)};
    kinds_.push_back(kind);
    ++stream_begin_[kind.stream + 1];
    ++queue_begin_[kind.lane + 1];
    if (entry.event == Event::sync_all) meetings_[kind.stream].push_back(i);
    if (reaches_outward(entry)) outward_[kind.stream].push_back(i);
    unit_flags_ = unit_flags_ || entry.unit;
  }
  counts_to_begins(stream_begin_);
  counts_to_begins(queue_begin_);
  std::vector<std::uint32_t> in_stream(stream_begin_), in_queue(queue_begin_);
  for (std::uint32_t i = 0; i < kinds_.size(); ++i) {
    streams_[in_stream[kinds_[i].stream]++] = i;
    queued_[in_queue[kinds_[i].lane]++] = i;
  }
  partners_ = partners_of(log, channels_of(log));
  return {};
}

tl::expected<EventOrder, Status> EventOrder::of(const EventLog& log, const Device& device) {
  if (Status status = check_device(device); !status.ok()) return tl::unexpected<Status>(std::move(status));
  if (log.entries.size() >= no_entry) return failure(StatusCode::invalid_argument, "log.entries: more than 2^32 - 2");
  EventOrder order(log, device);
  if (Status status = order.take(log, device); !status.ok()) return tl::unexpected<Status>(std::move(status));
  const auto calls = [&](std::uint32_t stream) { return order.meetings_[stream].size(); };
  const auto called = [&](std::uint32_t stream) {
    const std::string mine = stream_name(device, log.streams, stream % order.streams_of_a_core());
    return "core " + std::to_string(order.core_of_stream(stream)) + (mine.empty() ? "" : " " + mine);
  };
  for (std::uint32_t stream = 1; stream < order.streams(); ++stream)
    if (calls(stream) != calls(0))
      return failure(StatusCode::invalid_argument, "log: " + called(stream) + " calls sync_all " +
                                                       std::to_string(calls(stream)) + " times, " + called(0) + " " +
                                                       std::to_string(calls(0)) + " times");
  return order;
}

}  // namespace inlay::npu
