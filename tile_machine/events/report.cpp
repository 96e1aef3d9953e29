#include "tile_machine/events/report.hpp"

#include <utility>

namespace inlay::npu {

std::string_view name(ReportKind kind) {
  constexpr std::string_view table[report_kinds] = {
      "race_raw",  "race_war",     "race_waw",      "uninitialised_read", "use_after_release", "capacity",
      "alignment", "illegal_path", "unpaired_wait", "leftover_flag",      "flag_overrun",      "ambiguous_flag",
      "deadlock",  "core_overlap", "incoherent",    "redundant_sync"};
  return table[static_cast<int>(kind)];
}

Report* Reports::fresh(ReportKind kind, const Place& first, const Place& second) {
  const auto lines = std::tuple(kind, sites_.number(first.site), sites_.number(second.site));
  const auto [found, is_new] = known_.try_emplace(lines, reports_.size());
  if (!is_new) {
    ++reports_[found->second].repeated;
    return nullptr;
  }
  Report& report = reports_.emplace_back();
  report.kind = kind;
  report.first = first;
  report.second = second;
  return &report;
}

void Reports::add(Report report) {
  if (Report* kept = fresh(report.kind, report.first, report.second)) *kept = std::move(report);
}

}  // namespace inlay::npu
