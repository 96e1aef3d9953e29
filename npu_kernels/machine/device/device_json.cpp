// devices/<name>.json -> Device. The schema is this file, read top to bottom; every key is required, but for
// operations of the vector unit: one without a price is one that the unit does not have.
//
//   format       2
//   name         letters, digits, '-', '_', '.'
//   version      of the figures, 1 ..; it grows when one of them changes
//   about        one sentence
//   sources      {"<source>": {"confidence": "documented", "text": "where it stands"}, ..}; a source may add
//                "range": [0.8, 1.5], the factors between which its numbers may be wrong
//   cores, ghz   figures
//   dram         {bytes_per_cycle, bytes_per_cycle_core}
//   l2           null | {bytes, line, bytes_per_cycle, bytes_per_cycle_core, latency, hints}
//   scalar       {miss_cycles, line, lines}
//   memories     [{name, bytes, align, granule, banks}, ..], the first is global memory
//   spaces       {"<role>": "<memory>", ..}: roles may share a memory
//   queues       [{name, issue_cycles, depth, in_order_visible, outstanding}, ..]
//   pipes        {"<role>": "<queue>", ..}: roles may share a queue
//   streams      null: one scalar stream issues into all queues; or {flags, depth, cycles, wait_stops_stream,
//                 list: [{name, count, queues: ["<queue>", ..], memories: ["<memory>", ..]}, ..]}: the streams of
//                 a core, and the flags between them
//   paths        [{from, to, pipe, bytes_per_cycle, half_burst, latency, nd2nz, turn}, ..]: the last two are
//                null, "free" or {bytes_per_cycle, run_cycles}
//   matrix       {dataflow, systolic: null | {rows, columns, arrays}, preload, m_granule, right, head,
//                 rates: [{in, out, m, n, k, cycles, weight_cycles, turn_cycles}, ..],
//                 drain: [{from, to, scales: "none" | "one" | "columns", bias}, ..]}
//   vector       {bytes, align, column_cycles, operations: {"<operation>": {head, slope}, ..}}
//   sync         {flags, depth, set_cycles, wait_cycles, barrier_cycles, cross_cycles, unit_flag: null | bytes}
//   numerics     {fused_multiply_add, k_block}
//   compile      {fixed_ms, per_token_ms}
//
// A figure is a pair [number, "<source>"], so that no number stands without its provenance. `format` and
// `version` count this file, they are no figures.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "npu_kernels/machine/device/figure_reader.hpp"

namespace inlay::npu {
namespace {

using Json = nlohmann::json;

constexpr int supported_format = 2;
constexpr std::size_t most_memories = 16, most_queues = 16, most_streams = 4, most_paths = 36, most_rates = 64;

constexpr Range core_count{1, 4096, true};
constexpr Range clock_ghz{0.001, 100, false};
constexpr Range global_bytes{1 << 20, 0x1p44, true};
constexpr Range local_bytes{64, 0x1p30, true};  // checked mode allocates it for each core
constexpr Range alignment{1, 4096, true, true};
constexpr Range bank_count{1, 1024, true};
constexpr Range rate{0x1p-20, 0x1p20, false};  // bytes per cycle, cycles per step: never zero
constexpr Range cycles{0, 0x1p20, false};
constexpr Range burst_bytes{0, 0x1p20, false};
constexpr Range stream_count{1, 16, true};
constexpr Range queue_depth{1, 0x1p16, true};
constexpr Range tile{1, 1024, true};
constexpr Range array_side{1, 4096, true};
constexpr Range vector_bytes{4, 0x1p16, true, true};
constexpr Range flag_count{1, 1024, true};
constexpr Range milliseconds{0, 1e9, false};
constexpr Range cache_bytes{1 << 12, 0x1p34, true};
constexpr Range line_bytes{8, 4096, true, true};
constexpr Range line_count{1, 0x1p20, true};
constexpr Range array_count{1, 64, true};
constexpr Range transfer_count{1, 64, true};
constexpr Range granule_bytes{1, 0x1p20, true};

constexpr std::array<std::string_view, 2> dataflows{"weight_stationary", "output_stationary"};
constexpr std::array<std::string_view, 3> preloads{"exposed", "hidden", "pipelined"};
constexpr std::array<std::string_view, 3> right_orders{"any", "rows", "columns"};

constexpr std::array<std::string_view, 3> drain_scales{"none", "one", "columns"};

template <class Enum, int n> constexpr auto names() {
  std::array<std::string_view, n> result{};
  for (int i = 0; i < n; ++i) result[i] = name(static_cast<Enum>(i));
  return result;
}

class DeviceReader : private FigureReader {
 public:
  explicit DeviceReader(Device& device) : device_(device) {}

  Status read(const Json& root);

 private:
  template <class Named> std::uint8_t reference(const Node& node, const std::vector<Named>& table, const char* plural);
  DType dtype(const Node& node) { return static_cast<DType>(choice(node, names<DType, dtype_count>())); }

  void global_memory(const Node& root);
  void memories(const Node& root);
  Relayout relayout(const Node& node);
  void queues(const Node& root);
  void streams(const Node& section);
  void owned_once(const Node& section);
  void paths(const Node& list_node);
  void needed_moves(const std::string& pointer);
  void matrix(const Node& section);
  void vector(const Node& section);
  void rest(const Node& root);

  Device& device_;
};

template <class Named>
std::uint8_t DeviceReader::reference(const Node& node, const std::vector<Named>& table, const char* plural) {
  const std::string value = text(node, longest_name);
  if (!ok()) return 0;
  const auto found = std::find_if(table.begin(), table.end(), [&](const Named& entry) { return entry.name == value; });
  if (found == table.end()) refuse_value(node, std::string("the name of one of ") + plural);
  return ok() ? static_cast<std::uint8_t>(found - table.begin()) : std::uint8_t{0};
}

void DeviceReader::memories(const Node& root) {
  list(get(root, "memories"), most_memories, [&](const Node& node) {
    const bool global = device_.memories.empty();
    const Node entry = object(node, {"name", "bytes", "align", "granule", "banks"});
    Memory memory{.name = identifier(get(entry, "name"))};
    figure(entry, "bytes", global ? global_bytes : local_bytes, memory.bytes);
    figure(entry, "align", alignment, memory.align);
    figure(entry, "granule", alignment, memory.granule);
    figure(entry, "banks", bank_count, memory.banks);
    if (ok() && memory.bytes % memory.align != 0)
      refuse(child(entry.pointer, "bytes"), "is " + std::to_string(memory.bytes) +
                                                ": it must be a multiple of align, " + std::to_string(memory.align));
    for (const Memory& other : device_.memories)
      if (other.name == memory.name) refuse_value(get(entry, "name"), "unlike the other memories' names");
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
  for (std::size_t i = 0; ok() && i < device_.memories.size(); ++i)
    if (std::count(device_.memory_of.begin(), device_.memory_of.end(), i) == 0)
      refuse(child(child("", "memories"), i),
             "is " + device_.memories[i].name + ": a memory must have a role in /spaces");
}

void DeviceReader::queues(const Node& root) {
  list(get(root, "queues"), most_queues, [&](const Node& node) {
    const Node entry = object(node, {"name", "issue_cycles", "depth", "in_order_visible", "outstanding"});
    Queue queue{.name = identifier(get(entry, "name"))};
    figure(entry, "issue_cycles", cycles, queue.issue_cycles);
    figure(entry, "depth", queue_depth, queue.depth);
    queue.in_order_visible = boolean(get(entry, "in_order_visible"));
    figure(entry, "outstanding", transfer_count, queue.outstanding);
    for (const Queue& other : device_.queues)
      if (other.name == queue.name) refuse_value(get(entry, "name"), "unlike the other queues' names");
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
  for (std::size_t i = 0; ok() && i < device_.queues.size(); ++i) {
    if (std::count(device_.queue_of.begin(), device_.queue_of.end(), i) == 0)
      refuse(child(child("", "queues"), i), "is " + device_.queues[i].name + ": a queue must have a role in /pipes");
  }
  if (ok() && !device_.queues[device_.queue_of[scalar]].in_order_visible)
    refuse(child(child(child("", "queues"), device_.queue_of[scalar]), "in_order_visible"),
           "is false: it must be true, the scalar unit sees what it did");
}

// null: it cannot; "free": at the path's own speed.
Relayout DeviceReader::relayout(const Node& node) {
  if (!present(node)) return {.legal = false};
  if (*node.json == "free") return {};
  if (node.json->is_string()) refuse_value(node, "null, \"free\" or an object");
  Relayout result;
  const Node entry = object(node, {"bytes_per_cycle", "run_cycles"});
  figure(entry, "bytes_per_cycle", rate, result.bytes_per_cycle);
  figure(entry, "run_cycles", cycles, result.run_cycles);
  return result;
}

void DeviceReader::paths(const Node& list_node) {
  list(list_node, most_paths, [&](const Node& node) {
    const Node entry =
        object(node, {"from", "to", "pipe", "bytes_per_cycle", "half_burst", "latency", "nd2nz", "turn"});
    const auto space_names = names<Space, spaces>();
    const auto pipe_names = names<Pipe, pipes>();
    const Node to = get(entry, "to"), pipe = get(entry, "pipe");
    Path path{.from = static_cast<Space>(choice(get(entry, "from"), space_names)),
              .to = static_cast<Space>(choice(to, space_names)),
              .pipe = static_cast<Pipe>(choice(pipe, pipe_names))};
    figure(entry, "bytes_per_cycle", rate, path.bytes_per_cycle);
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

void DeviceReader::streams(const Node& section) {
  if (!ok() || section.json->is_null()) return;
  const Node node = object(section, {"flags", "depth", "cycles", "wait_stops_stream", "list"});
  figure(node, "flags", flag_count, device_.sync.stream_flags);
  figure(node, "depth", flag_count, device_.sync.stream_depth);
  figure(node, "cycles", cycles, device_.sync.stream_cycles);
  device_.sync.wait_stops_stream = boolean(get(node, "wait_stops_stream"));
  list(get(node, "list"), most_streams, [&](const Node& stream_node) {
    const Node entry = object(stream_node, {"name", "count", "queues", "memories"});
    Stream stream{.name = identifier(get(entry, "name")), .queues = {}, .memories = {}};
    figure(entry, "count", stream_count, stream.count);
    list(get(entry, "queues"), most_queues,
         [&](const Node& queue) { stream.queues.push_back(reference(queue, device_.queues, "/queues")); });
    list(get(entry, "memories"), most_memories,
         [&](const Node& memory) { stream.memories.push_back(reference(memory, device_.memories, "/memories")); });
    for (const Stream& other : device_.streams)
      if (other.name == stream.name) refuse_value(get(entry, "name"), "unlike the other streams' names");
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

void DeviceReader::matrix(const Node& section) {
  const Node node =
      object(section, {"dataflow", "systolic", "preload", "m_granule", "right", "head", "rates", "drain"});
  MatrixUnit& unit = device_.matrix;
  unit.dataflow =
      choice(get(node, "dataflow"), dataflows) == 0 ? Dataflow::weight_stationary : Dataflow::output_stationary;
  const Node systolic = get(node, "systolic");
  if (present(systolic)) {
    unit.systolic = true;
    const Node array = object(systolic, {"rows", "columns", "arrays"});
    figure(array, "rows", array_side, unit.rows);
    figure(array, "columns", array_side, unit.columns);
    figure(array, "arrays", array_count, unit.arrays);
  }
  unit.preload = static_cast<Preload>(choice(get(node, "preload"), preloads));
  figure(node, "m_granule", tile, unit.m_granule);
  unit.right = static_cast<RightOrder>(choice(get(node, "right"), right_orders));
  figure(node, "head", cycles, unit.head);
  list(get(node, "rates"), most_rates, [&](const Node& rate_node) {
    const Node entry = object(rate_node, {"in", "out", "m", "n", "k", "cycles", "weight_cycles", "turn_cycles"});
    const Node out = get(entry, "out");
    MatrixRate step{.in = dtype(get(entry, "in")), .out = dtype(out)};
    figure(entry, "m", tile, step.m);
    figure(entry, "n", tile, step.n);
    figure(entry, "k", tile, step.k);
    figure(entry, "cycles", rate, step.cycles);
    figure(entry, "weight_cycles", cycles, step.weight_cycles);
    figure(entry, "turn_cycles", cycles, step.turn_cycles);
    if (ok() && device_.rate(step.in, step.out) != nullptr)
      refuse_value(out, "unlike that of the other rates of " + std::string(name(step.in)));
    unit.rates.push_back(step);
  });
  list(get(node, "drain"), most_rates, [&](const Node& form_node) {
    const Node entry = object(form_node, {"from", "to", "scales", "bias"});
    const Node from = get(entry, "from"), to = get(entry, "to");
    DrainForm form{.from = dtype(from), .to = dtype(to)};
    form.scales = static_cast<DrainScales>(choice(get(entry, "scales"), drain_scales));
    form.bias = boolean(get(entry, "bias"));
    if (!ok()) return;
    if (std::none_of(unit.rates.begin(), unit.rates.end(), [&](const auto& rate) { return rate.out == form.from; }))
      refuse_value(from, "the type of an accumulator, out of one of the rates");
    if (device_.drain(form.from, form.to) != nullptr)
      refuse_value(to, "unlike that of the other drains of " + std::string(name(form.from)));
    unit.drain.push_back(form);
  });
}

void DeviceReader::vector(const Node& section) {
  const Node node = object(section, {"bytes", "align", "column_cycles", "operations"});
  figure(node, "bytes", vector_bytes, device_.vector.bytes);
  figure(node, "align", alignment, device_.vector.align);
  figure(node, "column_cycles", cycles, device_.vector.column_cycles);
  const auto operation_names = names<VectorOp, vector_ops>();
  const Node operations = some_of(get(node, "operations"), operation_names);
  for (int i = 0; i < vector_ops; ++i) {
    VectorCost& price = device_.vector.cost[i];
    price.available = has(operations, operation_names[i]);
    if (!price.available) continue;
    const Node cost = object(get(operations, operation_names[i]), {"head", "slope"});
    figure(cost, "head", cycles, price.head);
    figure(cost, "slope", rate, price.slope);
  }
}

void DeviceReader::rest(const Node& root) {
  const Node sync = object(get(root, "sync"), {"flags", "depth", "set_cycles", "wait_cycles", "barrier_cycles",
                                               "cross_cycles", "unit_flag"});
  figure(sync, "flags", flag_count, device_.sync.flags);
  figure(sync, "depth", flag_count, device_.sync.depth);
  figure(sync, "set_cycles", cycles, device_.sync.set_cycles);
  figure(sync, "wait_cycles", cycles, device_.sync.wait_cycles);
  figure(sync, "barrier_cycles", cycles, device_.sync.barrier_cycles);
  figure(sync, "cross_cycles", cycles, device_.sync.cross_cycles);
  if (present(get(sync, "unit_flag"))) figure(sync, "unit_flag", granule_bytes, device_.sync.unit_flag_bytes);

  const Node numerics = object(get(root, "numerics"), {"fused_multiply_add", "k_block"});
  device_.numerics.fused_multiply_add = boolean(get(numerics, "fused_multiply_add"));
  figure(numerics, "k_block", tile, device_.numerics.k_block);

  const Node compile = object(get(root, "compile"), {"fixed_ms", "per_token_ms"});
  figure(compile, "fixed_ms", milliseconds, device_.compile.fixed_ms);
  figure(compile, "per_token_ms", milliseconds, device_.compile.per_token_ms);
}

// Global memory's bandwidth, the cache before it, and what a scalar read of it costs.
void DeviceReader::global_memory(const Node& root) {
  const auto at_most_all = [&](const Node& node, double core, double all) {
    if (ok() && core > all)
      refuse(child(node.pointer, "bytes_per_cycle_core"),
             "is " + shown(core) + ": it must be at most bytes_per_cycle, " + shown(all));
  };
  const Node dram = object(get(root, "dram"), {"bytes_per_cycle", "bytes_per_cycle_core"});
  figure(dram, "bytes_per_cycle", rate, device_.dram_bytes_per_cycle);
  figure(dram, "bytes_per_cycle_core", rate, device_.dram_bytes_per_cycle_core);
  at_most_all(dram, device_.dram_bytes_per_cycle_core, device_.dram_bytes_per_cycle);
  if (const Node cache = get(root, "l2"); present(cache)) {
    Cache& l2 = device_.l2;
    const Node node = object(cache, {"bytes", "line", "bytes_per_cycle", "bytes_per_cycle_core", "latency", "hints"});
    figure(node, "bytes", cache_bytes, l2.bytes);
    figure(node, "line", line_bytes, l2.line);
    figure(node, "bytes_per_cycle", rate, l2.bytes_per_cycle);
    figure(node, "bytes_per_cycle_core", rate, l2.bytes_per_cycle_core);
    at_most_all(node, l2.bytes_per_cycle_core, l2.bytes_per_cycle);
    figure(node, "latency", cycles, l2.latency);
    l2.hints = boolean(get(node, "hints"));
  }
  const Node scalar = object(get(root, "scalar"), {"miss_cycles", "line", "lines"});
  figure(scalar, "miss_cycles", cycles, device_.scalar.miss_cycles);
  figure(scalar, "line", line_bytes, device_.scalar.line);
  figure(scalar, "lines", line_count, device_.scalar.lines);
}

Status DeviceReader::read(const Json& json) {
  const Node root = object({&json, ""}, {"format",  "name",  "version", "about",    "sources", "cores",    "ghz",
                                         "dram",    "l2",    "scalar",  "memories", "spaces",  "queues",   "pipes",
                                         "streams", "paths", "matrix",  "vector",   "sync",    "numerics", "compile"});
  if (const Node format = get(root, "format"); ok() && *format.json != supported_format)
    refuse_value(format, std::to_string(supported_format) + ", the format that this loader reads");
  device_.name = identifier(get(root, "name"));
  const Node version = get(root, "version");
  constexpr int newest = 1'000'000;
  if (ok() && (!version.json->is_number_integer() || *version.json < 1 || *version.json > newest))
    refuse_value(version, "a whole number from 1 to " + std::to_string(newest));
  if (ok()) device_.version = version.json->get<int>();
  text(get(root, "about"), longest_text);
  sources(get(root, "sources"));

  figure(root, "cores", core_count, device_.cores);
  figure(root, "ghz", clock_ghz, device_.ghz);
  global_memory(root);
  memories(root);
  queues(root);
  streams(get(root, "streams"));
  paths(get(root, "paths"));
  matrix(get(root, "matrix"));
  vector(get(root, "vector"));
  rest(root);
  refuse_unused_sources(get(root, "sources"));
  device_.provenance = take_provenance();
  return take_status();
}

}  // namespace

tl::expected<Device, Status> parse_device(std::string_view text) {
  auto json = parse_strict_json(text);
  if (!json) return failure(std::move(json.error()));
  Device device;
  if (Status status = DeviceReader(device).read(*json); !status.ok()) return failure(std::move(status));
  return device;
}

}  // namespace inlay::npu
