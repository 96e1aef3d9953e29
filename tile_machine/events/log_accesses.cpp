// Buffers of a log's text, and the bytes that its work touches.
#include <algorithm>

#include "tile_machine/events/log_reader.hpp"

namespace inlay::npu {
namespace {

constexpr std::size_t most_accesses = 1024;           // of one list
constexpr std::uint64_t most_runs = 1 << 20;          // of one access
constexpr std::uint64_t most_buffers = 1 << 20;       // of a log
constexpr std::uint64_t most_allocated = 1ull << 31;  // bytes of all allocations: a bit of each is kept

constexpr std::string_view access_keys[] = {"buffer", "offset", "space",  "address", "bytes",
                                            "runs",   "stride", "atomic", "streamed"};

}  // namespace

bool LogReader::has_memory(Space space, std::size_t stream) const {
  return device_.streams.empty() || space == Space::global || device_.stream_of(space) == log_.streams[stream];
}

Space LogReader::space(const Node& root, std::string_view key, const Entry& entry) {
  const auto space = static_cast<Space>(choice(get(root, key), names<Space, spaces>()));
  if (ok() && !has_memory(space, entry.stream))
    refuse_value(get(root, key), "a space of the stream " + device_.streams[log_.streams[entry.stream]].name +
                                     ", which has no memory " + device_.memory(space).name);
  return space;
}

// A place in a memory; as the event `allocate` one whose life is watched.
void LogReader::buffer(const Node& root, Entry& entry) {
  const Space where = space(root, "space", entry);
  if (!ok()) return;
  const Memory& memory = device_.memory(where);
  const bool allocates = get(root, "event").json->get_ref<const std::string&>() == "allocate";
  if (allocates && where == Space::global)
    return refuse_value(get(root, "space"), "a core's own; what lies in global memory is the event buffer");
  number(root, "buffer", declared_.size(), declared_.size(), 0);
  if (declared_.size() >= most_buffers)
    refuse("/buffer", "is one more than " + std::to_string(most_buffers) + ", the most that a log may have");
  Buffer made;
  made.memory = device_.memory_of[static_cast<std::size_t>(where)];
  made.core = entry.core;
  made.stream = entry.stream;
  made.name = text_of(root, "name", "");
  made.site = entry.site;
  made.begin = number(root, "address", 0, memory.bytes - 1, 0);
  made.bytes = number(root, "bytes", 0, memory.bytes - made.begin, 0);
  made.workspace = yes(root, "workspace");
  if (ok() && made.workspace && where != Space::global)
    refuse_value(get(root, "workspace"), "false outside of global memory");
  if (allocates && ok() && (allocated_bytes_ += made.bytes) > most_allocated)
    refuse("/bytes", "is " + std::to_string(made.bytes) + ": all allocations of a log together may have " +
                         std::to_string(most_allocated) + " bytes");
  if (!ok()) return;
  entry.buffer = static_cast<std::uint32_t>(log_.buffers.size());
  declared_.push_back({.index = entry.buffer, .allocated = allocates});
  log_.buffers.push_back(std::move(made));
}

void LogReader::release(const Node& root, Entry& entry) {
  const std::uint64_t which = number(root, "buffer", 0, most_buffers, 0);
  const auto refuse_this = [&](const char* must) { refuse_value(get(root, "buffer"), must); };
  if (!ok()) return;
  if (which >= declared_.size() || !declared_[which].allocated) return refuse_this("one that was allocated before");
  Declared& declared = declared_[which];
  const Buffer& buffer = log_.buffers[declared.index];
  if (declared.released) return refuse_this("one that has not been released yet");
  if (buffer.core != entry.core || buffer.stream != entry.stream) return refuse_this("one of this core and stream");
  declared.released = true;
  entry.buffer = declared.index;
}

void LogReader::accesses(const Node& root, Entry& entry) {
  for (const std::string_view key : {"reads", "writes"})
    if (has(root, key))
      list(get(root, key), most_accesses, [&](const Node& node) { access(node, key == "writes", entry); });
}

// {"buffer": 3, "offset": 0, "bytes": 256, "runs": 8, "stride": 512}, or "space" and "address" in place of the first
// two.
void LogReader::access(const Node& node, bool write, const Entry& entry) {
  some_of(node, access_keys);
  const bool by_buffer = has(node, "buffer"), by_space = has(node, "space");
  if (ok() && by_buffer == by_space)
    return refuse(node.pointer, by_buffer ? "has a buffer and a space: it must have one of them"
                                          : "has neither buffer nor space: it must have one of them");
  const std::string_view begin = by_buffer ? "offset" : "address", other = by_buffer ? "address" : "offset";
  if (has(node, other))
    return refuse(child(node.pointer, other), by_buffer ? "goes with space; with a buffer it is offset"
                                                        : "goes with a buffer; with space it is address");
  for (const std::string_view key : {begin, std::string_view("bytes")})
    if (ok() && !has(node, key)) return refuse(child(node.pointer, key), "is missing");
  Footprint at;
  at.write = write;
  if (by_buffer) {
    const std::uint64_t which = number(node, "buffer", 0, most_buffers, 0);
    if (ok() && which >= declared_.size()) return refuse_value(get(node, "buffer"), "that of a line before");
    if (!ok()) return;
    at.buffer = declared_[which].index;
  } else {
    const Space where = space(node, "space", entry);
    if (!ok()) return;
    at.buffer = whole_memory(where, entry);
  }
  const Buffer& buffer = log_.buffers[at.buffer];
  if (buffer.memory != 0 && (buffer.core != entry.core || buffer.stream != entry.stream))
    return refuse_value(get(node, "buffer"), "one of this core and stream, or in global memory");
  at.memory = buffer.memory;
  const Memory& memory = device_.memories[buffer.memory];
  at.begin = buffer.begin + number(node, begin, 0, memory.bytes, 0);
  at.run_bytes = number(node, "bytes", 0, memory.bytes, 0);
  at.runs = static_cast<std::uint32_t>(number(node, "runs", 0, most_runs, 1));
  at.stride = number(node, "stride", 0, memory.bytes, 0);
  at.atomic = yes(node, "atomic");
  at.streamed = yes(node, "streamed");
  const std::uint64_t end = at.begin + (at.runs == 0 ? 0 : (at.runs - 1) * at.stride + at.run_bytes);
  if (ok() && end > memory.bytes)
    return refuse(node.pointer, "ends at byte " + std::to_string(end) + " of " + memory.name + ", which has " +
                                    std::to_string(memory.bytes));
  if (ok()) log_.footprints.push_back(at);
}

// In place of a buffer that the log does not tell of: the memory, named as the device does.
std::uint32_t LogReader::whole_memory(Space space, const Entry& entry) {
  const std::uint8_t memory = device_.memory_of[static_cast<std::size_t>(space)];
  const bool shared = memory == 0;
  const auto [known, fresh] = whole_memories_.try_emplace(
      {memory, shared ? std::uint16_t{0} : entry.core, shared ? std::uint8_t{0} : entry.stream}, log_.buffers.size());
  if (fresh)
    log_.buffers.push_back({.memory = memory,
                            .core = entry.core,
                            .begin = 0,
                            .bytes = device_.memories[memory].bytes,
                            .name = device_.memories[memory].name,
                            .site = {},
                            .stream = entry.stream});
  return known->second;
}

void LogReader::expect_in(std::initializer_list<Space> allowed, const Footprint& at, std::size_t number) {
  std::vector<std::string_view> known;
  for (const Space space : allowed) {
    if (device_.memory_of[static_cast<std::size_t>(space)] == at.memory) return;
    known.push_back(name(space));
  }
  refuse(child(at.write ? "/writes" : "/reads", number),
         "lies in " + device_.memories[at.memory].name + ": it must lie in " + listed(known));
}

}  // namespace inlay::npu
