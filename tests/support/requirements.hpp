// What a machine or a checkout lacks is never passed over in silence: the test shows as skipped, with its reason, and
// scripts/test.sh lists the reasons at its end. INLAY_REQUIRE=avx512,data,... names what must be there: lacking it
// fails.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/source_dir.hpp"

namespace inlay::test {

// True if INLAY_REQUIRE, a list with commas between, names `what`.
inline bool required(std::string_view what) {
  const char* value = std::getenv("INLAY_REQUIRE");
  const std::string list = std::string(",") + (value ? value : "") + ",";
  return list.find("," + std::string(what) + ",") != std::string::npos;
}

// The third-party data beside the checkout.
inline std::string third_party(const std::string& path) {
  return std::string(source_dir) + "/../shared/data/" + path;
}

inline bool has_data(const std::string& path) { return std::filesystem::exists(third_party(path)); }

}  // namespace inlay::test

// Ends the test here unless `condition` holds: skipped, or failed where INLAY_REQUIRE names `what`.
#define INLAY_NEEDS(condition, what, reason)                                                                         \
  do {                                                                                                               \
    if (!(condition)) {                                                                                              \
      const auto* const inlay_test = ::testing::UnitTest::GetInstance()->current_test_info();                        \
      if (::inlay::test::required(what)) FAIL() << "INLAY_REQUIRE names " << (what) << ": " << (reason);             \
      GTEST_SKIP() << "not tested: " << inlay_test->test_suite_name() << "." << inlay_test->name() << " (" << (what) \
                   << "): " << (reason);                                                                             \
    }                                                                                                                \
  } while (false)

// `path` under ../shared/data.
#define INLAY_NEEDS_DATA(path) \
  INLAY_NEEDS(::inlay::test::has_data(path), "data", "there is no ../shared/data/" + std::string(path))
