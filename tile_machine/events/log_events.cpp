// Each event of a log's text: what its keys are, and which entry it becomes.
#include <algorithm>
#include <numeric>

#include "tile_machine/events/log_reader.hpp"

namespace inlay::npu {
namespace {

constexpr std::uint64_t most_flag = 0xffff;             // between cores, where descriptions have no count of ids
constexpr std::uint64_t most_extent = 1 << 16;          // of a product
constexpr std::uint64_t most_elements = 1u << 30;       // of a vector operation
constexpr std::uint64_t most_bytes = (1ull << 34) - 1;  // of a transfer, as the timing model counts them
constexpr std::array<std::string_view, 3> changes{"none", "nd2nz", "turn"};
constexpr std::array<std::string_view, 2> cache_verbs{"clean", "invalidate"};

}  // namespace

std::span<const LogReader::Form> LogReader::forms() {
  static constexpr Form all[] = {
      {"buffer",
       &LogReader::buffer,
       Event::allocate,
       false,
       {"buffer", "name", "space", "address", "bytes"},
       {"workspace"}},
      {"allocate", &LogReader::buffer, Event::allocate, true, {"buffer", "name", "space", "address", "bytes"}, {}},
      {"release", &LogReader::release, Event::release, true, {"buffer"}, {}},
      {"copy", &LogReader::copy, Event::work, true, {"from", "to"}, {"reads", "writes", "bytes", "runs", "change"}},
      {"matrix", &LogReader::matrix, Event::work, true, {"m", "n", "k", "in", "out"}, {"reads", "writes", "turned"}},
      {"vector",
       &LogReader::vector,
       Event::work,
       true,
       {"op", "in", "out", "elements"},
       {"reads", "writes", "rows", "broadcast"}},
      {"scalar", &LogReader::scalar, Event::work, true, {}, {"reads", "writes", "cache"}},
      {"set", &LogReader::flag, Event::set, true, {"from", "to", "flag"}, {"ring", "unit"}},
      {"wait", &LogReader::flag, Event::wait, true, {"from", "to", "flag"}, {"ring", "unit"}},
      {"barrier", &LogReader::barrier, Event::barrier, true, {"pipe"}, {}},
      {"barrier_all", &LogReader::nothing_more, Event::barrier_all, true, {}, {}},
      {"stream_set", &LogReader::stream_flag, Event::stream_set, true, {"from", "to", "flag", "peer_stream"}, {"ring"}},
      {"stream_wait",
       &LogReader::stream_flag,
       Event::stream_wait,
       true,
       {"from", "to", "flag", "peer_stream"},
       {"ring"}},
      {"cross_set", &LogReader::cross_set, Event::cross_set, true, {"pipe", "peer", "flag"}, {}},
      {"cross_wait", &LogReader::cross_wait, Event::cross_wait, true, {"pipe", "flag"}, {}},
      {"sync_all", &LogReader::nothing_more, Event::sync_all, true, {}, {}},
      {"end", &LogReader::last, Event::work, false, {"events"}, {}}};
  return all;
}

// Does the stream have the pipe's queue? Otherwise what stands at `pointer` is refused.
bool LogReader::runs(Pipe pipe, std::size_t stream, const std::string& pointer) {
  const std::uint8_t queue = device_.queue_of[static_cast<std::size_t>(pipe)], kind = log_.streams[stream];
  if (!device_.has_queue(kind, queue))
    refuse(pointer, "is the work of " + std::string(name(pipe)) + ": the stream " + device_.streams[kind].name +
                        " has no queue " + device_.queues[queue].name);
  return ok();
}

Pipe LogReader::pipe(const Node& root, std::string_view key, std::size_t stream) {
  const auto pipe = static_cast<Pipe>(choice(get(root, key), names<Pipe, pipes>()));
  runs(pipe, stream, child(root.pointer, key));
  return pipe;
}

DType LogReader::type(const Node& root, std::string_view key) {
  return static_cast<DType>(choice(get(root, key), names<DType, dtype_count>()));
}

void LogReader::flag(const Node& root, Entry& entry) {
  entry.from = pipe(root, "from", entry.stream);
  entry.to = pipe(root, "to", entry.stream);
  entry.pipe = entry.event == Event::set ? entry.from : entry.to;
  entry.flag = static_cast<std::uint16_t>(number(root, "flag", 0, device_.sync.flags - 1u, 0));
  entry.ring = yes(root, "ring");
  entry.unit = yes(root, "unit");
}

void LogReader::stream_flag(const Node& root, Entry& entry) {
  if (device_.sync.stream_flags == 0)
    return refuse("/event", "is a flag between streams: a core of " + device_.name + " has one stream");
  const bool sets = entry.event == Event::stream_set;
  entry.peer_stream = static_cast<std::uint8_t>(number(root, "peer_stream", 0, log_.streams.size() - 1, 0));
  if (ok() && log_.streams[entry.stream] == log_.streams[entry.peer_stream])
    return refuse_value(get(root, "peer_stream"), "another kind of stream: there are no flags between equal ones");
  entry.from = pipe(root, "from", sets ? entry.stream : entry.peer_stream);
  entry.to = pipe(root, "to", sets ? entry.peer_stream : entry.stream);
  entry.pipe = sets ? entry.from : device_.sync.wait_stops_stream ? Pipe::scalar : entry.to;
  entry.flag = static_cast<std::uint16_t>(number(root, "flag", 0, device_.sync.stream_flags - 1u, 0));
  entry.ring = yes(root, "ring");
}

void LogReader::cross_set(const Node& root, Entry& entry) {
  entry.pipe = pipe(root, "pipe", entry.stream);
  entry.peer = static_cast<std::uint16_t>(number(root, "peer", 0, log_.cores - 1u, 0));
  entry.flag = static_cast<std::uint16_t>(number(root, "flag", 0, most_flag, 0));
}

void LogReader::cross_wait(const Node& root, Entry& entry) {
  entry.pipe = pipe(root, "pipe", entry.stream);
  entry.peer = entry.core;
  entry.flag = static_cast<std::uint16_t>(number(root, "flag", 0, most_flag, 0));
}

void LogReader::barrier(const Node& root, Entry& entry) {
  entry.pipe = pipe(root, "pipe", entry.stream);
  if (entry.pipe == Pipe::scalar)
    refuse_value(get(root, "pipe"),
                 "a queue's; barrier_all is the event in which the scalar unit waits for all queues");
}

// What is moved by default is what the far side has: the target in global memory, else the source.
void LogReader::copy(const Node& root, Entry& entry) {
  const auto from = static_cast<Space>(choice(get(root, "from"), names<Space, spaces>())),
             to = static_cast<Space>(choice(get(root, "to"), names<Space, spaces>()));
  if (!ok()) return;
  const Path* const path = device_.path(from, to);
  if (path == nullptr)
    return refuse("/to", "is " + std::string(name(to)) + ": " + device_.name + " has no path there from " +
                             std::string(name(from)));
  entry.pipe = path->pipe;
  if (!runs(path->pipe, entry.stream, "/to")) return;
  Work& work = entry.work;
  work.unit = Unit::dma;
  work.path = static_cast<std::uint8_t>(path - device_.paths.data());
  if (has(root, "change")) work.change = static_cast<Change>(choice(get(root, "change"), changes));
  const bool legal = work.change == Change::none || (work.change == Change::nd2nz ? path->nd2nz : path->turn).legal;
  if (ok() && !legal) refuse_value(get(root, "change"), "none: this path of " + device_.name + " changes nothing so");
  accesses(root, entry);
  std::uint64_t bytes = 0, runs = 0;
  each_access(entry, [&](const Footprint& at, std::size_t number) {
    if (at.write)
      expect_in({to}, at, number);
    else if (number == 0)
      expect_in({from}, at, number);
    else
      expect_in({from, to, Space::staging}, at, number);  // what a sum adds to, scales of a drain
    if (at.write != (to == Space::global) || (!at.write && number > 0)) return;
    bytes += at.runs * at.run_bytes;
    runs += at.runs;
  });
  work.bytes = number(root, "bytes", 0, most_bytes, bytes);
  if (ok() && work.bytes > most_bytes)
    refuse("/bytes", "is " + std::to_string(bytes) + " by the accesses; one transfer moves " +
                         std::to_string(most_bytes) + " at most");
  work.runs = number(root, "runs", 0, std::max<std::uint64_t>(work.bytes, 1), runs);
}

void LogReader::matrix(const Node& root, Entry& entry) {
  entry.pipe = Pipe::matrix;
  if (!runs(Pipe::matrix, entry.stream, "/event")) return;
  Work& work = entry.work;
  work.unit = Unit::matrix;
  work.m = static_cast<std::uint32_t>(number(root, "m", 1, most_extent, 1));
  work.n = static_cast<std::uint32_t>(number(root, "n", 1, most_extent, 1));
  work.k = static_cast<std::uint32_t>(number(root, "k", 1, most_extent, 1));
  work.in = type(root, "in");
  work.out = type(root, "out");
  work.turned = yes(root, "turned");
  if (ok() && device_.rate(work.in, work.out) == nullptr)
    return refuse("/in", "is " + std::string(name(work.in)) + ": the matrix unit of " + device_.name +
                             " has no rate for it into " + std::string(name(work.out)));
  const auto fits = [&](Space space, std::uint64_t rows, std::uint64_t columns, DType type, std::string_view key) {
    if (ok() && rows * columns * static_cast<std::uint64_t>(bits(type)) > 8 * device_.memory(space).bytes)
      refuse(child("", key), "is " + std::to_string(rows) + ": " + std::to_string(rows) + " x " +
                                 std::to_string(columns) + " elements of " + std::string(name(type)) +
                                 " are more than " + device_.memory(space).name + " holds");
  };
  fits(Space::left, work.m, work.k, work.in, "m");
  fits(Space::right, work.k, work.n, work.in, "k");
  fits(Space::accumulator, work.m, work.n, work.out, "m");
  accesses(root, entry);
  each_access(entry, [&](const Footprint& at, std::size_t number) {
    if (at.write) return expect_in({Space::accumulator}, at, number);
    expect_in({Space::left, Space::right, Space::accumulator}, at, number);
  });
}

void LogReader::vector(const Node& root, Entry& entry) {
  entry.pipe = Pipe::vector;
  if (!runs(Pipe::vector, entry.stream, "/event")) return;
  Work& work = entry.work;
  work.unit = Unit::vector;
  const int op = choice(get(root, "op"), names<VectorOp, vector_ops>());
  work.op = static_cast<VectorOp>(op);
  if (ok() && !device_.vector.cost[static_cast<std::size_t>(op)].available)
    refuse_value(get(root, "op"), "an operation of " + device_.name + ", whose description gives this one no cost");
  work.in = type(root, "in");
  work.out = type(root, "out");
  work.elements = number(root, "elements", 0, most_elements, 0);
  work.rows = static_cast<std::uint32_t>(number(root, "rows", 1, std::max<std::uint64_t>(work.elements, 1), 1));
  work.column = yes(root, "broadcast");
  accesses(root, entry);
  each_access(entry, [&](const Footprint& at, std::size_t number) { expect_in({Space::vector}, at, number); });
}

void LogReader::scalar(const Node& root, Entry& entry) {
  entry.pipe = Pipe::scalar;
  entry.work.unit = Unit::scalar;
  entry.work.elements = 1;
  if (has(root, "cache"))
    entry.line = choice(get(root, "cache"), cache_verbs) == 0 ? LineVerb::clean : LineVerb::invalidate;
  accesses(root, entry);
  if (!has(root, "cache")) return;
  each_access(entry, [&](const Footprint& at, std::size_t number) { expect_in({Space::global}, at, number); });
}

void LogReader::last(const Node& root, Entry&) {
  number(root, "events", events_, events_, events_);
  ended_ = true;
}

}  // namespace inlay::npu
