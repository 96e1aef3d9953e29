// What the machine and its checker find: data, never an exception and never a line on the screen.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu {

enum class ReportKind : std::uint8_t {
  race_raw,            // a read that nothing orders after the write it needs
  race_war,            // a write that nothing orders after an earlier read
  race_waw,            // two writes without an order
  uninitialised_read,  // bytes that nothing has written
  use_after_release,   // a tensor of an allocation that has been given back
  capacity,            // an allocation that its memory cannot hold
  alignment,           // a run that starts off its memory's granule
  illegal_path,        // a move, product or layout that the device does not have
  unpaired_wait,       // a wait without a set
  leftover_flag,       // a set that no wait took
  flag_overrun,        // more sets than the device holds before a wait takes one
  ambiguous_flag,      // which wait takes which set depends on the times
  deadlock,            // no core can go on
  core_overlap,        // two cores touch the same global bytes without an order, one of them writing
  incoherent,          // a scalar unit's cache has other bytes of global memory than it, and somebody meets that
  redundant_sync       // removable: the order it makes exists without it
};
inline constexpr int report_kinds = 16;
std::string_view name(ReportKind kind);

// Where an entry stands: in the kernel's source, and in the run.
struct Place {
  SourceLocation site;
  std::uint16_t core = 0;
  Pipe pipe = Pipe::scalar;
  std::uint32_t entry = 0;  // index into EventLog::entries; no_entry where nothing was issued
  std::uint8_t stream = 0;  // of the core
};

struct Report {
  ReportKind kind = ReportKind::race_raw;
  std::string message;         // one sentence: names buffers, bytes, pipes, lines
  Place first, second;         // of a race: the earlier and the later access in order of issue
  std::string missing;         // the flag that would order them, e.g. "set/wait(load, feed)"; else empty
  std::uint64_t repeated = 1;  // how often the same pair of lines was found
};

// The same finding at the same pair of lines is kept once, and counted.
class Reports {
 public:
  // The report to fill in, or null: there is one, and it has been counted.
  Report* fresh(ReportKind kind, const Place& first, const Place& second);
  void add(Report report);
  std::vector<Report> take() { return std::move(reports_); }

 private:
  Sites sites_;
  std::map<std::tuple<ReportKind, std::uint32_t, std::uint32_t>, std::size_t> known_;
  std::vector<Report> reports_;
};

}  // namespace inlay::npu
