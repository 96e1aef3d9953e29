// One report for each kind and pair of lines.
#include <gtest/gtest.h>

#include <string>

#include "tile_machine/events/report.hpp"

namespace inlay::npu {
namespace {

Place at(const SourceLocation& site, std::uint32_t entry) { return {site, 0, Pipe::load, entry}; }

TEST(Reports, TheFirstOfAPairOfLinesIsKeptAndTheOthersAreCounted) {
  Reports reports;
  const SourceLocation a = SourceLocation::current(), b = SourceLocation::current();  // columns tell them apart
  for (std::uint32_t i = 0; i < 3; ++i) {
    Report* report = reports.fresh(ReportKind::race_raw, at(a, i), at(b, i));
    ASSERT_EQ(report != nullptr, i == 0);
    if (report != nullptr) report->message = "the first";
  }
  EXPECT_NE(reports.fresh(ReportKind::race_raw, at(b, 0), at(a, 0)), nullptr) << "the other way round";
  EXPECT_NE(reports.fresh(ReportKind::race_war, at(a, 0), at(b, 0)), nullptr) << "another kind";
  Report again;
  again.kind = ReportKind::race_raw;
  again.first = at(a, 7);
  again.second = at(b, 7);
  reports.add(again);
  const auto all = reports.take();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].message, "the first");
  EXPECT_EQ(all[0].first.entry, 0u);
  EXPECT_EQ(all[0].repeated, 4u);
  EXPECT_EQ(all[1].repeated, 1u);
}

TEST(Reports, ALineHasItsFilesNameAndNoPath) {
  const SourceLocation here = SourceLocation::current();
  EXPECT_EQ(line_of(here), "reports.cpp:" + std::to_string(here.line()));
}

}  // namespace
}  // namespace inlay::npu
