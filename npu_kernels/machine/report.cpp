#include "npu_kernels/machine/report.hpp"

namespace inlay::npu {

std::string_view name(ReportKind kind) {
  constexpr std::string_view table[report_kinds] = {
      "race_raw",     "race_war",       "race_waw",     "uninitialised_read", "use_after_release",
      "capacity",     "alignment",      "illegal_path", "unpaired_wait",      "leftover_flag",
      "flag_overrun", "ambiguous_flag", "deadlock",     "core_overlap",       "redundant_sync"};
  return table[static_cast<int>(kind)];
}

std::string line_of(const SourceLocation& site) {
  const std::string_view path = site.file_name();
  const std::size_t slash = path.find_last_of('/');
  std::string result(slash == std::string_view::npos ? path : path.substr(slash + 1));
  result += ':';
  result += std::to_string(site.line());
  return result;
}

}  // namespace inlay::npu
