#include "tile_machine/run/mutation.hpp"

#include <cstring>

namespace inlay::npu {

std::string_view name(MutationKind kind) {
  constexpr std::string_view table[mutation_kinds] = {"drop_sync", "drop_release", "halve_ring", "shift_offset"};
  return table[static_cast<int>(kind)];
}

bool Mutations::hit(MutationKind kind, const char* verb, const SourceLocation& site) {
  std::uint32_t index = 0;
  for (MutationPoint& point : points_) {
    if (point.kind != kind) continue;
    if (point.site.line() == site.line() && point.site.column() == site.column() &&
        std::strcmp(point.verb, verb) == 0 && std::strcmp(point.site.file_name(), site.file_name()) == 0) {
      ++point.executions;
      return wanted_ && wanted_->kind == kind && wanted_->index == index;
    }
    ++index;
  }
  points_.push_back({kind, verb, site, 1});
  return wanted_ && wanted_->kind == kind && wanted_->index == index;
}

}  // namespace inlay::npu
