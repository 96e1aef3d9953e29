// Of a device description: memories, queues, streams and paths.
#include "tile_machine/device/device_reader.hpp"

namespace inlay::npu {
namespace {

constexpr std::size_t max_memories = 16, max_queues = 16, max_streams = 4, max_paths = 36;

constexpr Range global_bytes{1 << 20, 0x1p44, true};
constexpr Range local_bytes{64, 0x1p30, true};  // checked mode allocates it for each core
constexpr Range burst_bytes{0, 0x1p20, false};
constexpr Range stream_count{1, 16, true};
constexpr Range queue_depth{1, 0x1p16, true};
constexpr Range transfer_count{1, 64, true};

}  // namespace

void DeviceReader::memories(const Node& root) {
  list(get(root, "memories"), max_memories, [&](const Node& node) {
    const bool global = device_.memories.empty();
    const Node entry = object(node, {"name", "bytes", "align", "granule"});
    Memory memory{.name = identifier(get(entry, "name"))};
    figure(entry, "bytes", global ? global_bytes : local_bytes, memory.bytes);
    figure(entry, "align", alignment, memory.align);
    figure(entry, "granule", alignment, memory.granule);
    if (ok() && memory.bytes % memory.align != 0)
      refuse(child(entry.pointer, "bytes"), "is " + std::to_string(memory.bytes) +
                                                ": it must be a multiple of align, " + std::to_string(memory.align));
    unlike_others(get(entry, "name"), memory.name, device_.memories, "memories");
    device_.memories.push_back(std::move(memory));
  });

  const auto roles = names<Space, spaces>();
  const Node node = object(get(root, "spaces"), roles);
  for (int role = 0; ok() && role < spaces; ++role) {
    const Node entry = get(node, roles[role]);
    device_.memory_of[role] = reference(entry, device_.memories, "/memories");
    if (ok() && (device_.memory_of[role] == 0) != (role == 0))
      refuse_value(entry,
                   role == 0 ? "the first of /memories, global memory" : "a memory of the core, not global memory");
  }
  each_has_role(device_.memories, device_.memory_of, "memories", "a memory must have a role in /spaces");
}

void DeviceReader::queues(const Node& root) {
  list(get(root, "queues"), max_queues, [&](const Node& node) {
    const Node entry = object(node, {"name", "issue_cycles", "depth", "in_order_visible", "outstanding"});
    Queue queue{.name = identifier(get(entry, "name"))};
    figure(entry, "issue_cycles", cycles, queue.issue_cycles);
    figure(entry, "depth", queue_depth, queue.depth);
    queue.in_order_visible = boolean(get(entry, "in_order_visible"));
    figure(entry, "outstanding", transfer_count, queue.outstanding);
    unlike_others(get(entry, "name"), queue.name, device_.queues, "queues");
    device_.queues.push_back(std::move(queue));
  });

  const auto roles = names<Pipe, pipes>();
  const Node node = object(get(root, "pipes"), roles);
  constexpr int scalar = static_cast<int>(Pipe::scalar);
  for (int role = 0; ok() && role < pipes; ++role) {
    const Node entry = get(node, roles[role]);
    device_.queue_of[role] = reference(entry, device_.queues, "/queues");
    if (ok() && role != scalar && device_.queue_of[role] == device_.queue_of[scalar])
      refuse_value(entry, "another queue than the scalar one, which issues all others");
  }
  each_has_role(device_.queues, device_.queue_of, "queues", "a queue must have a role in /pipes");
  if (ok() && !device_.queues[device_.queue_of[scalar]].in_order_visible)
    refuse(child(child(child("", "queues"), device_.queue_of[scalar]), "in_order_visible"),
           "is false: it must be true, the scalar unit sees what it did");
}

void DeviceReader::streams(const Node& section) {
  if (!ok() || section.json->is_null()) return;
  const Node node = object(section, {"flags", "depth", "cycles", "wait_stops_stream", "list"});
  figure(node, "flags", flag_count, device_.sync.stream_flags);
  figure(node, "depth", flag_count, device_.sync.stream_depth);
  figure(node, "cycles", cycles, device_.sync.stream_cycles);
  device_.sync.wait_stops_stream = boolean(get(node, "wait_stops_stream"));
  list(get(node, "list"), max_streams, [&](const Node& stream_node) {
    const Node entry = object(stream_node, {"name", "count", "queues", "memories"});
    Stream stream{.name = identifier(get(entry, "name")), .queues = {}, .memories = {}};
    figure(entry, "count", stream_count, stream.count);
    list(get(entry, "queues"), max_queues,
         [&](const Node& queue) { stream.queues.push_back(reference(queue, device_.queues, "/queues")); });
    list(get(entry, "memories"), max_memories,
         [&](const Node& memory) { stream.memories.push_back(reference(memory, device_.memories, "/memories")); });
    unlike_others(get(entry, "name"), stream.name, device_.streams, "streams");
    device_.streams.push_back(std::move(stream));
  });
  owned_once(section);
}

// Each queue and each memory is one stream's, but the scalar queue and global memory, which all have.
void DeviceReader::owned_once(const Node& section) {
  const auto once = [&](const auto& table, std::size_t shared, std::vector<std::uint8_t> Stream::*owned,
                        const std::string& what) {
    for (std::size_t i = 0; ok() && i < table.size(); ++i) {
      std::ptrdiff_t owners = 0;
      for (const Stream& stream : device_.streams)
        owners += std::count((stream.*owned).begin(), (stream.*owned).end(), i);
      if (owners != (i == shared ? 0 : 1))
        refuse(section.pointer, "has " + what + " " + table[i].name + " " + std::to_string(owners) +
                                    " times: it must be " +
                                    (i == shared ? "no stream's, as all have it" : "one stream's, and once"));
    }
  };
  once(device_.queues, device_.queue_of[static_cast<int>(Pipe::scalar)], &Stream::queues, "the queue");
  once(device_.memories, 0, &Stream::memories, "the memory");
}

// null: it cannot; "free": at the path's own speed.
Relayout DeviceReader::relayout(const Node& node) {
  if (!present(node)) return {.legal = false};
  if (*node.json == "free") return {};
  if (node.json->is_string()) refuse_value(node, "null, \"free\" or an object");
  Relayout result;
  if (has(node, "pass_bytes_per_cycle")) {
    figure(object(node, {"pass_bytes_per_cycle"}), "pass_bytes_per_cycle", bandwidth, result.pass_bytes_per_cycle);
    return result;
  }
  const Node entry = object(node, {"bytes_per_cycle", "run_cycles"});
  figure(entry, "bytes_per_cycle", bandwidth, result.bytes_per_cycle);
  figure(entry, "run_cycles", cycles, result.run_cycles);
  return result;
}

void DeviceReader::paths(const Node& list_node) {
  list(list_node, max_paths, [&](const Node& node) {
    const Node entry =
        object(node, {"from", "to", "pipe", "bytes_per_cycle", "half_burst", "latency", "nd2nz", "turn"});
    const auto space_names = names<Space, spaces>();
    const auto pipe_names = names<Pipe, pipes>();
    const Node to = get(entry, "to"), pipe = get(entry, "pipe");
    Path path{.from = static_cast<Space>(choice(get(entry, "from"), space_names)),
              .to = static_cast<Space>(choice(to, space_names)),
              .pipe = static_cast<Pipe>(choice(pipe, pipe_names))};
    figure(entry, "bytes_per_cycle", bandwidth, path.bytes_per_cycle);
    figure(entry, "half_burst", burst_bytes, path.half_burst);
    figure(entry, "latency", cycles, path.latency);
    path.nd2nz = relayout(get(entry, "nd2nz"));
    path.turn = relayout(get(entry, "turn"));
    path.dram = path.from == Space::global || path.to == Space::global;
    if (!ok()) return;
    if (path.from == path.to || device_.same_memory(path.from, path.to))
      refuse_value(to, "in another memory than " + std::string(name(path.from)) + ": a move within one is a view");
    if (path.pipe == Pipe::scalar || path.pipe == Pipe::matrix)
      refuse_value(pipe, "a pipe that moves data, not " + std::string(name(path.pipe)));
    if (device_.path(path.from, path.to) != nullptr)
      refuse_value(to, "unlike that of the other paths from " + std::string(name(path.from)));
    for (Space space : {path.from, path.to})
      if (space != Space::global && device_.stream_of(space) != device_.stream_of(path.pipe))
        refuse_value(pipe, "a pipe of the stream that has the memory of " + std::string(name(space)));
    device_.paths.push_back(path);
  });
  needed_moves(list_node.pointer);
}

// Without these no tile would come in, be multiplied, or go out.
void DeviceReader::needed_moves(const std::string& pointer) {
  const auto can = [&](Space from, Space to) {
    return device_.same_memory(from, to) || device_.path(from, to) != nullptr;
  };
  constexpr std::pair<Space, Space> needed[] = {{Space::global, Space::staging},
                                                {Space::global, Space::vector},
                                                {Space::staging, Space::left},
                                                {Space::staging, Space::right},
                                                {Space::vector, Space::global}};
  for (const auto& [from, to] : needed)
    if (ok() && !can(from, to))
      refuse(pointer,
             "has no path from " + std::string(name(from)) + " to " + std::string(name(to)) + ": there must be one");
  if (ok() && !can(Space::accumulator, Space::global) && !can(Space::accumulator, Space::vector))
    refuse(pointer, "has no path from accumulator to global or vector: there must be one");
}

}  // namespace inlay::npu
