// Event logs as text: JSON lines in which somebody's kernel, run on a host with its verbs recorded
// (include/inlay/npu_log.h), says what it put into the queues. docs/npu_import.md has the table of events and fields.
//
//   auto file = load_log("softmax.jsonl", device);
//   check(file->log, device), time_events(file->log, device)
//
// The text names roles of a device, spaces and pipes, and the description says which memory and which queue play them:
// what a log cannot mean on this device is refused.
#pragma once

#include <filesystem>
#include <istream>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct LogFile {
  std::string kernel;
  EventLog log;
  std::unique_ptr<std::unordered_set<std::string>> texts;  // verbs and files, to which entries and reports point
};

// Errors: corrupt_data; the line's number, the kernel's own line where it has been read, the key as a JSON pointer, its
// value and what it must be. What is held at a time is one line and the log so far.
tl::expected<LogFile, Status> read_log(std::istream& text, const Device& device);
tl::expected<LogFile, Status> load_log(const std::filesystem::path& file, const Device& device);

// The log of a checked run in this form: read again it is the same to the checker and to the timing model.
std::string log_text(const EventLog& log, const Device& device, std::string_view kernel);
// Errors: not_found or internal where the file cannot be written, which is then as it was.
Status save_log(const std::string& file, const EventLog& log, const Device& device, std::string_view kernel);

}  // namespace inlay::npu
