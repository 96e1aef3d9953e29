#include "tile_machine/check/placement.hpp"

#include <algorithm>
#include <string>

#include "tile_machine/events/overlap.hpp"
#include "tile_machine/events/words.hpp"

namespace inlay::npu {

std::vector<Report> misplaced(const EventLog& log, const Device& device) {
  Reports reports;
  const auto report = [&](ReportKind kind, std::uint32_t e, const auto& message) {
    if (Report* const fresh = reports.fresh(kind, place_of(log, e), place_of(log, e))) fresh->message = message();
  };
  for (std::uint32_t e = 0; e < log.entries.size(); ++e) {
    const Entry& entry = log.entries[e];
    if (entry.event != Event::work) continue;
    for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f) {
      const Footprint& at = log.footprints[f];
      const Runs runs = runs_of(at);
      if (runs.count == 0) continue;
      const auto touches = [&](std::uint64_t byte) {
        return entry_words(log, device, e) + (at.write ? " writes " : " reads ") +
               byte_words(log, device, at.buffer, byte);
      };
      const auto last = static_cast<std::uint64_t>(runs.end()) - 1;
      if (at.buffer < log.buffers.size()) {
        const Buffer& buffer = log.buffers[at.buffer];
        if (last >= buffer.begin + buffer.bytes)
          report(ReportKind::capacity, e,
                 [&] { return touches(last) + ", which has " + std::to_string(buffer.bytes) + " bytes"; });
      }
      if (at.memory == 0 || entry.work.unit == Unit::scalar) continue;
      const bool operand = entry.work.unit == Unit::vector;
      const std::uint32_t granule = operand ? device.vector.align : device.memories[at.memory].granule;
      if (at.begin % granule != 0)
        report(ReportKind::alignment, e, [&] {
          return touches(at.begin) + ", at address " + std::to_string(at.begin) + ", which must be a multiple of " +
                 std::to_string(granule);
        });
      else if (at.runs > 1 && at.stride % granule != 0)
        report(ReportKind::alignment, e, [&] {
          return touches(at.begin) + " in runs that start " + std::to_string(at.stride) +
                 " bytes apart, which must be a multiple of " + std::to_string(granule);
        });
    }
  }
  return reports.take();
}

}  // namespace inlay::npu
