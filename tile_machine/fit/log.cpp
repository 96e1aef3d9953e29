#include "tile_machine/fit/log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "files/strict_json.hpp"
#include "tile_machine/fit/csv.hpp"
#include "tile_machine/fit/instruction.hpp"

namespace inlay::npu {

namespace {

using Json = nlohmann::json;

// A trace of one core is some ten MB; nothing of it is kept but what samples hold.
constexpr files::JsonLimits trace_limits{.bytes = std::size_t{1} << 29, .depth = 16, .values = std::size_t{1} << 26};

// Whether its queue works on one transfer at a time: what each takes is then its own.
bool alone_in_queue(const Device& device, const Path& path) {
  return device.queues[device.queue_of[static_cast<int>(path.pipe)]].outstanding == 1;
}

// One instruction that took `end - start` cycles in all, `count` times. False: nothing was made of it.
bool add_instruction(InstructionLog& log, const Device& device, std::string_view name, std::string_view operands,
                     TransferSample when, double count = 1) {
  if (const auto vector = vector_instruction(name, operands)) {
    if (!device.vector.cost[static_cast<int>(vector->op)].available) return false;
    log.vectors.push_back({vector->op, vector->repeats, (when.end - when.start) / count});
    return true;
  }
  const auto move = move_instruction(name, operands, when.bytes);
  if (!move) return false;
  const Path* path = device.path(move->from, move->to);
  if (path == nullptr) return false;
  if (move->change == Change::nd2nz && (!path->nd2nz.legal || path->nd2nz.bytes_per_cycle == 0)) return false;
  when.path = static_cast<std::uint8_t>(path - device.paths.data());
  when.change = move->change;
  when.bytes = move->bytes;
  when.runs = move->runs;
  when.end = when.start + (when.end - when.start) / count;
  log.transfers.push_back(when);
  return true;
}

Status tells_something(const InstructionLog& log) {
  if (!log.vectors.empty() || !log.transfers.empty()) return {};
  return {StatusCode::corrupt_data,
          "has no instruction whose work it tells, of " + std::to_string(log.set_aside) +
              ": it must have vector instructions with their repeats or transfers with their bursts"};
}

const std::string* text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? found->get_ptr<const std::string*>() : nullptr;
}

std::optional<double> time_of(const Json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return value >= 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

tl::expected<LogKind, Status> kind_of_log(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != text.npos && (text[first] == '{' || text[first] == '[')) return LogKind::trace;
  const auto table = parse_csv(text.substr(0, std::min(text.find('\n'), text.size())));
  if (!table) return failure(table.error().code(), std::string(table.error().message()));
  if (table->has("instr") || table->has("call_count")) return LogKind::instructions;
  if (table->has("block_id") || table->has("sub_block_id")) return LogKind::pipe_utilization;
  if (table->has("operator") || table->has("shape")) return LogKind::times;
  std::string columns;
  for (const std::string& column : table->columns) columns.append(columns.empty() ? "" : ", ").append(column);
  return failure(StatusCode::corrupt_data, "is no log, its first line is " + files::describe(columns) +
                                               ": it must be JSON, or have columns instr, block_id or operator");
}

tl::expected<InstructionLog, Status> read_trace(std::string_view text, const std::string& name, const Device& device) {
  auto json = files::parse_strict_json(text, trace_limits);
  if (!json) return failure(std::move(json.error()));
  const bool wrapped = json->is_object() && json->contains("traceEvents");
  const Json& events = wrapped ? json->at("traceEvents") : *json;
  if (!events.is_array())
    return failure(StatusCode::corrupt_data, "has no traceEvents: it must have a list of them, or be one");
  InstructionLog log{.name = name, .vectors = {}, .transfers = {}};
  // A trace of one core has a process for each pipe, that of all cores one for each core.
  std::map<std::string, std::uint32_t> cores;
  const double cycles_per_us = device.ghz * 1e3;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    const std::string *phase = text_of(event, "ph"), *instruction = text_of(event, "name");
    if (phase == nullptr || *phase != "X" || instruction == nullptr) continue;
    const auto start = time_of(event, "ts"), duration = time_of(event, "dur");
    if (!start || !duration)
      return failure(StatusCode::corrupt_data,
                     files::child(wrapped ? "/traceEvents" : "", i) +
                         " has no ts and dur of at least 0: an event X must, in microseconds");
    const auto arguments = event.find("args");
    const std::string* operands = arguments == event.end() ? nullptr : text_of(*arguments, "detail");
    const std::string* core = text_of(event, "pid");
    const std::uint32_t number =
        cores.emplace(core == nullptr ? "" : *core, static_cast<std::uint32_t>(cores.size())).first->second;
    const std::string* bytes = arguments == event.end() ? nullptr : text_of(*arguments, "process_bytes");
    const TransferSample when{.bytes = bytes == nullptr ? 0 : std::strtod(bytes->c_str(), nullptr),
                              .core = number,
                              .start = *start * cycles_per_us,
                              .end = (*start + *duration) * cycles_per_us};
    if (operands == nullptr || *duration == 0 || !add_instruction(log, device, *instruction, *operands, when))
      ++log.set_aside;
  }
  if (Status status = tells_something(log); !status.ok()) return failure(std::move(status));
  return log;
}

tl::expected<InstructionLog, Status> read_instructions(std::string_view text, const std::string& name,
                                                       const Device& device) {
  const auto table = parse_csv(text);
  if (!table) return failure(table.error().code(), std::string(table.error().message()));
  if (Status status = table->needs({"instr", "call_count", "cycles", "detail"}); !status.ok())
    return failure(std::move(status));
  InstructionLog log{.name = name, .vectors = {}, .transfers = {}};
  for (const CsvRow& row : table->rows) {
    const auto calls = table->number(row, "call_count"), cycles = table->number(row, "cycles");
    if (!calls) return failure(calls.error().code(), std::string(calls.error().message()));
    if (!cycles) return failure(cycles.error().code(), std::string(cycles.error().message()));
    const std::string &instruction = row.cells[*table->column("instr")],
                      &operands = row.cells[*table->column("detail")];
    // Cycles of transfers that were under way together hold one another's.
    const auto move = move_instruction(instruction, operands);
    const Path* path = move ? device.path(move->from, move->to) : nullptr;
    const bool tells = *calls > 0 && *cycles > 0 && (path == nullptr || alone_in_queue(device, *path));
    const TransferSample when{.core = static_cast<std::uint32_t>(row.line), .start = 0, .end = *cycles};
    if (!tells || !add_instruction(log, device, instruction, operands, when, *calls)) ++log.set_aside;
  }
  if (Status status = tells_something(log); !status.ok()) return failure(std::move(status));
  return log;
}

tl::expected<PipeRates, Status> read_pipe_utilization(std::string_view text, const std::string& name,
                                                      const Device& device) {
  const auto table = parse_csv(text);
  if (!table) return failure(table.error().code(), std::string(table.error().message()));
  struct Column {
    const char* name;
    Space from, to;
  };
  constexpr Column transfers[] = {{"aic_mte2_active_bw(GB/s)", Space::global, Space::staging},
                                  {"aic_fixpipe_active_bw(GB/s)", Space::accumulator, Space::global},
                                  {"aiv_mte2_active_bw(GB/s)", Space::global, Space::vector},
                                  {"aiv_mte3_active_bw(GB/s)", Space::vector, Space::global}};
  PipeRates rates{.name = name, .ghz = {}, .active = {}};
  const bool cube = table->has("aic_total_cycles"), vector = table->has("aiv_total_cycles");
  if (!cube && !vector) return failure(table->needs({"aic_total_cycles", "aiv_total_cycles"}));
  if (cube && !table->has("aic_time(us)")) return failure(table->needs({"aic_time(us)"}));
  if (vector && !table->has("aiv_time(us)")) return failure(table->needs({"aiv_time(us)"}));
  Status refused;
  // NA stands where a row's core has no such unit, or was not asked.
  const auto value = [&](const CsvRow& row, std::string_view column) {
    if (!table->has(column) || row.cells[*table->column(column)] == "NA" || row.cells[*table->column(column)].empty())
      return 0.0;
    auto number = table->number(row, column);
    if (number) return *number;
    if (refused.ok()) refused = std::move(number.error());
    return 0.0;
  };
  for (const CsvRow& row : table->rows) {
    for (const char* unit : {"aic", "aiv"}) {
      const double cycles = value(row, std::string(unit) + "_total_cycles"),
                   us = value(row, std::string(unit) + "_time(us)");
      if (cycles > 0 && us > 0) rates.ghz.push_back(cycles / us / 1e3);
    }
    for (const Column& column : transfers) {
      const double rate = value(row, column.name);
      const Path* path = device.path(column.from, column.to);
      if (rate > 0 && path != nullptr)
        rates.active.push_back({static_cast<std::uint8_t>(path - device.paths.data()), rate});
    }
  }
  if (!refused.ok()) return failure(std::move(refused));
  if (rates.ghz.empty())
    return failure(StatusCode::corrupt_data,
                   "has no row with cycles and a time above 0: it must have one of aic or aiv");
  return rates;
}

tl::expected<std::vector<TimeRow>, Status> read_times(std::string_view text) {
  const auto table = parse_csv(text);
  if (!table) return failure(table.error().code(), std::string(table.error().message()));
  if (Status status = table->needs({"operator", "shape", "us"}); !status.ok()) return failure(std::move(status));
  std::vector<TimeRow> rows;
  for (const CsvRow& row : table->rows) {
    const auto us = table->number(row, "us");
    if (!us) return failure(us.error().code(), std::string(us.error().message()));
    if (*us == 0)
      return failure(StatusCode::corrupt_data,
                     "line " + std::to_string(row.line) + ": us is 0: it must be above 0, in microseconds");
    rows.push_back({{}, row.line, row.cells[*table->column("operator")], row.cells[*table->column("shape")], *us});
  }
  if (rows.empty()) return failure(StatusCode::corrupt_data, "has no row: it must have one for each time");
  return rows;
}

}  // namespace inlay::npu
