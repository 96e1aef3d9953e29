// How far each comparison stayed below its bound. A bound that nothing comes near lets wrong kernels pass: at the end
// of a program that ran whole, a bound above 30 times the worst error that was seen fails it, unless the comparison
// gives the sentence that proves why (Allow::loose). INLAY_REPORT_TOLERANCE=1 prints the table.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include <inlay/core/dtype.hpp>

#include "tests/support/sanitizers.hpp"
#include "tile_machine/events/source_location.hpp"

namespace inlay::test {

// The backend that computes, as on_backend names it; without its number of threads.
inline std::string current_level = "no backend";

using Where = npu::SourceLocation;

class ToleranceReport : public ::testing::Environment {
 public:
  static constexpr double loosest = 1.0 / 30;

  // The worst |got - expected| / bound of one comparison over its elements.
  void saw(double share, DType type, std::string_view loose, const Where& where) {
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string line =
        std::filesystem::path(where.file_name()).filename().string() + ":" + std::to_string(where.line());
    Entry& entry = entries_[{test ? test->test_suite_name() : "", line, std::string(name(type))}];
    double& worst = entry.shares[current_level];
    worst = std::max(worst, share);
    if (!loose.empty()) entry.loose = loose;
  }

  void TearDown() override {
    if (const char* value = std::getenv("INLAY_REPORT_TOLERANCE"); value && std::string_view(value) == "1") print();
    const auto& program = *::testing::UnitTest::GetInstance();
    if (program.test_to_run_count() != program.total_test_count() || program.Failed()) return;
    if (thread_sanitizer) return;  // one level alone may round as the reference does: a fused y = a x + b has no error
    for (const auto& [key, entry] : entries_)
      EXPECT_TRUE(entry.worst() >= loosest || !entry.loose.empty())
          << std::get<0>(key) << ", " << std::get<1>(key) << ", " << std::get<2>(key)
          << ": no error comes nearer to its bound than " << entry.worst()
          << " of it. Make the bound follow from the arithmetic, or prove in Allow::loose why it cannot.";
  }

 private:
  struct Entry {
    std::map<std::string, double> shares;  // by level
    std::string loose;
    double worst() const {
      double worst = 0;
      for (const auto& [level, share] : shares) worst = std::max(worst, share);
      return worst;
    }
  };

  void print() const {
    std::printf("worst error as a share of its bound\n%-24s %-32s %-5s %-14s %s\n", "operator", "comparison", "type",
                "level", "share");
    for (const auto& [key, entry] : entries_) {
      for (const auto& [level, share] : entry.shares)
        std::printf("%-24s %-32s %-5s %-14s %.3g\n", std::get<0>(key).c_str(), std::get<1>(key).c_str(),
                    std::get<2>(key).c_str(), level.c_str(), share);
      if (!entry.loose.empty()) std::printf("  loose: %s\n", entry.loose.c_str());
    }
  }

  std::map<std::tuple<std::string, std::string, std::string>, Entry> entries_;  // suite, line, type
};

// GoogleTest owns it.
inline ToleranceReport* const tolerance_report = [] {
  auto* const report = new ToleranceReport;
  ::testing::AddGlobalTestEnvironment(report);
  return report;
}();

}  // namespace inlay::test
