// What logs of msprof tell of a device (docs/npu_fit.md): instructions with their work and their cycles, of its
// simulator, and what a kernel's pipes did, of a device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

enum class LogKind : std::uint8_t {
  trace,             // trace.json of msprof's simulator
  instructions,      // *_instr_exe.csv of it
  pipe_utilization,  // PipeUtilization.csv of msprof on a device
  times              // operator, shape, us
};

// By its content. Errors: it is none of these; of a table the columns that it has are named.
tl::expected<LogKind, Status> kind_of_log(std::string_view text);

struct VectorSample {
  VectorOp op = VectorOp::add;
  double repeats = 0, cycles = 0;
};

struct TransferSample {
  std::uint8_t path = 0;  // index into Device::paths
  Change change = Change::none;
  double bytes = 0, runs = 0;
  std::uint32_t core = 0;     // of the log
  double start = 0, end = 0;  // cycles
};

struct InstructionLog {
  std::string name;  // of the file
  std::vector<VectorSample> vectors;
  std::vector<TransferSample> transfers;
  std::uint64_t set_aside = 0;  // instructions whose work or figure the log does not tell
};

// What one row of PipeUtilization.csv says: a core's clock, and bytes a second of pipes while they are busy.
struct PipeRates {
  std::string name;  // of the file
  std::vector<double> ghz;
  struct Active {
    std::uint8_t path = 0;
    double bytes_per_ns = 0;
  };
  std::vector<Active> active;
};

struct TimeRow {
  std::string file{};  // where the reader was told of it
  std::size_t line = 0;
  std::string op, shape;
  double us = 0;
};

// Cycles are those of device.ghz. Errors: no list of events, an event whose time is no number of at least 0 (named by
// its JSON pointer); nothing that the device has a figure for.
tl::expected<InstructionLog, Status> read_trace(std::string_view text, const std::string& name, const Device& device);
// Errors: columns that are missing, a cell that is no number of at least 0; nothing that the device has a figure for.
tl::expected<InstructionLog, Status> read_instructions(std::string_view text, const std::string& name,
                                                       const Device& device);
tl::expected<PipeRates, Status> read_pipe_utilization(std::string_view text, const std::string& name,
                                                      const Device& device);
// Errors: as above; a time of 0, a table without rows.
tl::expected<std::vector<TimeRow>, Status> read_times(std::string_view text);

}  // namespace inlay::npu
