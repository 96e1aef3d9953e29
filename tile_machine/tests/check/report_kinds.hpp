// What the checker reports of a hand-made tape, for comparison with a list of kinds.
#pragma once

#include <vector>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/tests/tape/tape_builder.hpp"

namespace inlay::npu::test {

using Kinds = std::vector<ReportKind>;

inline Kinds kinds(const std::vector<Report>& reports) {
  Kinds all;
  for (const Report& report : reports) all.push_back(report.kind);
  return all;
}

inline const Device one = plain_device();

inline Kinds kinds(const TapeBuilder& builder, const Device& device = one) {
  return kinds(check(builder.tape, device));
}

}  // namespace inlay::npu::test
