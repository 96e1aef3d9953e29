// What the checker reports of a hand-made log, for comparison with a list of kinds.
#pragma once

#include <vector>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/tests/events/event_log_builder.hpp"

namespace inlay::npu::test {

using Kinds = std::vector<ReportKind>;

inline Kinds kinds(const std::vector<Report>& reports) {
  Kinds all;
  for (const Report& report : reports) all.push_back(report.kind);
  return all;
}

inline const Device one = plain_device();

inline Kinds kinds(const EventLogBuilder& builder, const Device& device = one) {
  return kinds(check(builder.log, device));
}

}  // namespace inlay::npu::test
