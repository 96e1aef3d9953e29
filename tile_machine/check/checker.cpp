#include "tile_machine/check/checker.hpp"

#include <string>

#include "tile_machine/check/lifetimes.hpp"
#include "tile_machine/check/scalar_lines.hpp"
#include "tile_machine/events/words.hpp"

namespace inlay::npu {
namespace {

constexpr std::size_t latest_pairs = 64;   // of one entry with one list of one page
constexpr std::size_t listed_entries = 8;  // of a deadlock

// Findings in words.
class Findings {
 public:
  Findings(const EventLog& log, const Device& device) : log_(log), device_(device), lanes_(log, device) {}

  void add(const Race& race) {
    if (Report* report = fresh(race.kind, race.first, race.second)) describe(race, *report);
  }

  void add(const Lifetimes::Finding& finding) {
    Report* report = fresh(finding.kind, finding.entry, finding.earlier);
    if (report == nullptr) return;
    const std::string bytes = bytes_of(finding.buffer, finding.byte);
    const std::string here = entry(finding.entry), there = line(finding.earlier);
    if (finding.kind == ReportKind::uninitialised_read)
      report->message = here + " reads " + bytes + ", which nothing has written since its allocation at " + there;
    else if (finding.kind == ReportKind::use_after_release)
      report->message = here + " uses " + bytes + ", released at " + there;
    else
      report->message = here + " places " + bytes + " where the allocation of " + there + " still lives";
  }

  void add(const ScalarLines::Finding& finding) {
    Report* report = fresh(ReportKind::incoherent, finding.entry, finding.earlier);
    if (report == nullptr) return;
    const Footprint& at = log_.footprints[finding.footprint];
    const std::string here = entry(finding.entry), there = entry(finding.earlier),
                      bytes = bytes_of(at.buffer, at.begin);
    if (finding.entry == finding.earlier) {
      report->missing = "scalar_clean";
      report->message =
          here + " writes " + bytes + ", which stays in its scalar unit's cache; no scalar_clean is after it";
      return;
    }
    const char* const meets = log_.entries[finding.entry].line != LineVerb::none ? " gives up "
                              : at.write                                         ? " writes "
                                                                                 : " reads ";
    report->message = here + meets + bytes;
    if (finding.fault == ScalarLines::Fault::not_clean) {
      report->missing = "scalar_clean";
      report->message += ", of whose line " + there +
                         " wrote what stays in its scalar unit's cache; no scalar_clean is after " +
                         line(finding.earlier) + " and before " + line(finding.entry);
    } else if (finding.fault == ScalarLines::Fault::stale) {
      report->missing = "scalar_invalidate";
      report->message += " in a line that its scalar unit has had since before " + there +
                         " wrote it; no scalar_invalidate is after " + line(finding.earlier) + " and before " +
                         line(finding.entry);
    } else {
      report->missing = "scalar_clean, sync, scalar_invalidate";
      report->message +=
          " in a line of which " + there +
          " writes another part: the one that goes back to memory last has old bytes where the other wrote";
    }
  }

  void add_unpaired_wait(std::uint32_t e) {
    if (Report* report = fresh(ReportKind::unpaired_wait, e))
      report->message = entry(e) + " waits for " + flag(e) + ", which nothing sets that often";
  }

  void add_leftover_set(std::uint32_t e) {
    if (Report* report = fresh(ReportKind::leftover_flag, e))
      report->message = entry(e) + " sets " + flag(e) + ", which no wait takes";
  }

  void add_overrun(std::uint32_t set, std::uint32_t wait) {
    Report* report = fresh(ReportKind::flag_overrun, set, wait);
    if (report == nullptr) return;
    report->message = entry(set) + " sets " + flag(set) + " while " + std::to_string(depth(set)) +
                      " may already stand, all that the device holds; ";
    report->message +=
        wait == no_entry ? "no wait takes one of them" : "nothing orders it after the wait at " + line(wait);
  }

  void add_ambiguous(std::uint32_t before, std::uint32_t e) {
    if (Report* report = fresh(ReportKind::ambiguous_flag, before, e))
      report->message = entry(before) + " and " + entry(e) + " use " + flag(e) +
                        " without an order between them: which set meets which wait depends on the times";
  }

  void check_id(std::uint32_t e) {
    const Entry& it = log_.entries[e];
    const bool streams = it.event == Event::stream_set || it.event == Event::stream_wait;
    const std::int64_t ids = streams ? device_.sync.stream_flags : device_.sync.flags;
    if ((it.event != Event::set && it.event != Event::wait && !streams) || it.flag < ids) return;
    if (Report* report = fresh(ReportKind::flag_overrun, e))
      report->message = entry(e) + " names " + flag(e) + "; the device has ids 0 to " + std::to_string(ids - 1);
  }

  void add_deadlock(const Order& order) {
    const std::uint32_t head = order.blocked.front();
    Report* report = fresh(ReportKind::deadlock, head, order.partner_of[head]);
    report->message = "nothing can run any more:";
    std::size_t listed = 0;
    for (const std::uint32_t e : order.blocked) {
      if (listed++ == listed_entries) {
        report->message += " and " + std::to_string(order.blocked.size() - listed_entries) + " more;";
        break;
      }
      report->message += " " + entry(e);
      const std::uint32_t set = order.partner_of[e];
      if (set != no_entry) {
        report->message += " waits for " + flag(set) + " of " + line(set) + ";";
      } else if (log_.entries[e].event == Event::sync_all) {
        report->message += " waits for the other streams;";
        report->missing = "sync_all";  // of one that does not come
      } else {
        report->message += " waits for the queues of its stream;";
      }
    }
    report->message.pop_back();
  }

  std::vector<Report> take() { return reports_.take(); }

 private:
  Report* fresh(ReportKind kind, std::uint32_t first, std::uint32_t second = no_entry) {
    return reports_.fresh(kind, place(first), place(second));
  }

  void describe(const Race& race, Report& report) const {
    const Entry &first = log_.entries[race.first], &second = log_.entries[race.second];
    const Footprint &before = log_.footprints[race.first_footprint], &after = log_.footprints[race.second_footprint];
    const auto byte = common_byte(runs_of(before), runs_of(after));
    report.message = entry(race.second) + (after.write ? " writes " : " reads ") +
                     bytes_of(after.buffer, byte.value_or(after.begin)) + ", which " + entry(race.first) +
                     (before.write ? " writes" : " reads") + " before; ";
    const std::string from = line(race.first), to = line(race.second);
    const std::string first_pipe(name(first.pipe)), second_pipe(name(second.pipe));
    if (first.core != second.core) {
      report.missing = "cross_set/cross_wait or sync_all";
      report.message +=
          "no cross_set after " + from + " has its cross_wait before " + to + ", nor is a sync_all between";
    } else if (first.stream != second.stream && log_.streams[first.stream] == log_.streams[second.stream]) {
      report.missing = "sync_all";  // equal streams have no flags between them
      report.message += "no sync_all is after " + from + " and before " + to;
    } else if (lanes_.lane_of(first) == lanes_.lane_of(second)) {
      report.missing = "barrier(" + second_pipe + ")";
      report.message += "no " + report.missing + " after " + from + " and before " + to;
    } else {
      report.missing = "set/wait(" + first_pipe + ", " + second_pipe + ")";
      report.message +=
          "no set(" + first_pipe + ", " + second_pipe + ", id) after " + from + " has its wait before " + to;
    }
  }

  Place place(std::uint32_t e) const { return place_of(log_, e); }
  std::uint32_t depth(std::uint32_t set) const {
    return log_.entries[set].event == Event::stream_set ? device_.sync.stream_depth : device_.sync.depth;
  }
  std::string line(std::uint32_t e) const { return line_of(log_.entries[e].site); }

  std::string entry(std::uint32_t e) const { return entry_words(log_, device_, e); }
  std::string flag(std::uint32_t e) const { return channel_name(log_.entries[e]); }

  std::string bytes_of(std::uint32_t buffer, std::uint64_t byte) const {
    return byte_words(log_, device_, buffer, byte);
  }

  const EventLog& log_;
  const Device& device_;
  Lanes lanes_;
  Reports reports_;
};

}  // namespace

std::vector<Report> check(const EventLog& log, const Device& device) {
  Findings findings(log, device);
  const Order order = order_of(log, device);
  Clocks clocks(log, device, order);
  History history(log, device, latest_pairs);
  Lifetimes lifetimes(log);
  ScalarLines scalar_lines(log, device);
  while (clocks.next()) {
    const std::uint32_t e = clocks.entry();
    for (const Race& race : history.visit(clocks)) findings.add(race);
    for (const auto& finding : lifetimes.visit(e)) findings.add(finding);
    for (const auto& finding : scalar_lines.visit(clocks)) findings.add(finding);
    if (!clocks.has_room()) findings.add_overrun(e, order.room_of[e]);
    if (!clocks.has_turn()) findings.add_ambiguous(order.turn_of[e], e);
    findings.check_id(e);
  }
  for (const auto& finding : scalar_lines.end()) findings.add(finding);
  for (const std::uint32_t e : order.unpaired_waits) findings.add_unpaired_wait(e);
  for (const std::uint32_t e : order.leftover_sets) findings.add_leftover_set(e);
  for (const std::uint32_t e : order.overruns) findings.add_overrun(e, no_entry);
  if (!order.blocked.empty()) findings.add_deadlock(order);
  return findings.take();
}

std::vector<Race> races(const EventLog& log, const Device& device) {
  std::vector<Race> found;
  const Order order = order_of(log, device);
  Clocks clocks(log, device, order);
  History history(log, device);
  while (clocks.next()) {
    const auto& here = history.visit(clocks);
    found.insert(found.end(), here.begin(), here.end());
  }
  return found;
}

}  // namespace inlay::npu
