// devices/<name>.json -> Device. The schema; device_layout.cpp and device_units.cpp read their parts of it. Every key
// is required, but for operations of the vector unit, where one without a price is one that the unit does not have, for
// host: without it a program costs its cycles alone, and for dram's bytes_per_cycle_agent: without it the device can
// draw all that its memory gives.
//
//   format       2
//   name         letters, digits, '-', '_', '.'
//   version      of the figures, 1 ..; it grows when one of them changes
//   about        one sentence
//   sources      {"<source>": {"confidence": "documented", "text": "where it stands"}, ..}; a source may add
//                "range": [0.8, 1.5], the factors between which its numbers may be wrong
//   cores, ghz   figures
//   dram         {bytes_per_cycle, bytes_per_cycle_agent, bytes_per_cycle_core}: what the memory gives to all who share
//                it, what this device draws of that at most, and one of its cores
//   l2           null | {bytes, line, bytes_per_cycle, bytes_per_cycle_core, latency, hints}
//   scalar       {miss_cycles, line, lines, coherent}
//   memories     [{name, bytes, align, granule}, ..], the first is global memory
//   spaces       {"<role>": "<memory>", ..}: roles may share a memory
//   queues       [{name, issue_cycles, depth, in_order_visible, outstanding}, ..]
//   pipes        {"<role>": "<queue>", ..}: roles may share a queue
//   streams      null: one scalar stream issues into all queues; or {flags, depth, cycles, wait_stops_stream,
//                 list: [{name, count, queues: ["<queue>", ..], memories: ["<memory>", ..]}, ..]}: the streams of
//                 a core, and the flags between them
//   paths        [{from, to, pipe, bytes_per_cycle, half_burst, latency, nd2nz, turn}, ..]: the last two are
//                null, "free", {bytes_per_cycle, run_cycles}, or {pass_bytes_per_cycle}: another unit's pass over
//                the bytes behind the transfer
//   matrix       {dataflow, systolic: null | {rows, columns, arrays}, preload, m_granule, right, head,
//                 rates: [{in, out, m, n, k, cycles, weight_cycles, turn_cycles}, ..],
//                 drain: [{from, to, scales: "none" | "one" | "columns", bias}, ..]}
//   vector       {bytes, align, column_cycles, operations: {"<operation>": {head, slope}, ..}}
//   sync         {flags, depth, set_cycles, wait_cycles, barrier_cycles, cross_cycles, unit_flag: null | bytes}
//   numerics     {fused_multiply_add, k_block}
//   compile      {fixed_ms, per_token_ms}
//   host         {launch_us, dispatch_us, sync_us}
//
// A figure is a pair [number, "<source>"], so that no number stands without its provenance. `format` and
// `version` count this file, they are no figures.
#include "tile_machine/device/device_reader.hpp"

namespace inlay::npu {
namespace {

using Json = nlohmann::json;

constexpr int supported_format = 2;

constexpr Range core_count{1, 4096, true};
constexpr Range clock_ghz{0.001, 100, false};
constexpr Range milliseconds{0, 1e9, false}, microseconds{0, 1e9, false};
constexpr Range cache_bytes{1 << 12, 0x1p34, true};
constexpr Range line_bytes{8, 4096, true, true};
constexpr Range line_count{1, 0x1p20, true};
constexpr Range granule_bytes{1, 0x1p20, true};

}  // namespace

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

  if (!has(root, "host")) return;
  const Node host = object(get(root, "host"), {"launch_us", "dispatch_us", "sync_us"});
  figure(host, "launch_us", microseconds, device_.host.launch_us);
  figure(host, "dispatch_us", microseconds, device_.host.dispatch_us);
  figure(host, "sync_us", microseconds, device_.host.sync_us);
}

// Global memory's bandwidth, the cache before it, and what a scalar read of it costs.
void DeviceReader::global_memory(const Node& root) {
  // A part of a bandwidth is at most all of it.
  const auto within = [&](const Node& node, const char* key, double part, const char* whole, double all) {
    if (ok() && part > all)
      refuse(child(node.pointer, key), "is " + shown(part) + ": it must be at most " + whole + ", " + shown(all));
  };
  const auto shared = [&](const Node& node, const char* key, double core, double all) {
    const double least = device_.cores * bandwidth.low;
    if (ok() && all < least)
      refuse(child(node.pointer, key), "is " + shown(all) + ": it must be at least " + shown(least) + ", " +
                                           shown(bandwidth.low) + " for each of " + std::to_string(device_.cores) +
                                           " cores");
    within(node, "bytes_per_cycle_core", core, key, all);
  };
  const bool apart = root.json != nullptr && has(get(root, "dram"), "bytes_per_cycle_agent");
  std::vector<std::string_view> parts{"bytes_per_cycle", "bytes_per_cycle_core"};
  if (apart) parts.emplace_back("bytes_per_cycle_agent");
  const Node dram = object(get(root, "dram"), Words(parts));
  figure(dram, "bytes_per_cycle", bandwidth, device_.memory_bytes_per_cycle);
  device_.dram_bytes_per_cycle = device_.memory_bytes_per_cycle;
  if (apart) {
    figure(dram, "bytes_per_cycle_agent", bandwidth, device_.dram_bytes_per_cycle);
    within(dram, "bytes_per_cycle_agent", device_.dram_bytes_per_cycle, "bytes_per_cycle",
           device_.memory_bytes_per_cycle);
  }
  figure(dram, "bytes_per_cycle_core", bandwidth, device_.dram_bytes_per_cycle_core);
  shared(dram, apart ? "bytes_per_cycle_agent" : "bytes_per_cycle", device_.dram_bytes_per_cycle_core,
         device_.dram_bytes_per_cycle);
  if (const Node cache = get(root, "l2"); present(cache)) {
    Cache& l2 = device_.l2;
    const Node node = object(cache, {"bytes", "line", "bytes_per_cycle", "bytes_per_cycle_core", "latency", "hints"});
    figure(node, "bytes", cache_bytes, l2.bytes);
    figure(node, "line", line_bytes, l2.line);
    figure(node, "bytes_per_cycle", bandwidth, l2.bytes_per_cycle);
    figure(node, "bytes_per_cycle_core", bandwidth, l2.bytes_per_cycle_core);
    shared(node, "bytes_per_cycle", l2.bytes_per_cycle_core, l2.bytes_per_cycle);
    figure(node, "latency", cycles, l2.latency);
    l2.hints = boolean(get(node, "hints"));
  }
  const Node scalar = object(get(root, "scalar"), {"miss_cycles", "line", "lines", "coherent"});
  figure(scalar, "miss_cycles", cycles, device_.scalar.miss_cycles);
  figure(scalar, "line", line_bytes, device_.scalar.line);
  figure(scalar, "lines", line_count, device_.scalar.lines);
  device_.scalar.coherent = boolean(get(scalar, "coherent"));
}

Status DeviceReader::read(const Json& json) {
  std::vector<std::string_view> keys{"format",  "name",  "version", "about",    "sources", "cores",    "ghz",
                                     "dram",    "l2",    "scalar",  "memories", "spaces",  "queues",   "pipes",
                                     "streams", "paths", "matrix",  "vector",   "sync",    "numerics", "compile"};
  if (json.is_object() && json.contains("host")) keys.emplace_back("host");
  const Node root = object({&json, ""}, Words(keys));
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

tl::expected<Device, Status> parse_device(std::string_view text) {
  auto json = files::parse_strict_json(text);
  if (!json) return failure(std::move(json.error()));
  Device device;
  if (Status status = DeviceReader(device).read(*json); !status.ok()) return failure(std::move(status));
  return device;
}

}  // namespace inlay::npu
