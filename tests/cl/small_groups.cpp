// A device whose groups hold fewer work-items than the per-group shape's tiles are cut for.
#include <gtest/gtest.h>

#include <cstdlib>

#include <inlay/cl.hpp>

namespace inlay::test {
namespace {

// PoCL reads it when its devices are first asked for: in a process of its own.
template <class Test> void with_groups_of(const char* items, Test&& test) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("POCL_MAX_WORK_GROUP_SIZE", items, 1);
        std::exit(test() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(ClSmallGroupsDeathTest, the_per_group_shape_is_refused) {
  with_groups_of("128", [] {
    const auto made = Cl::make({.shape = ClShape::per_group});
    if (made || made.error().code() != StatusCode::unsupported) return false;
    const std::string_view message = made.error().message();
    for (const char* part : {"shape is per_group", "256", "128", "per_item"})
      if (message.find(part) == std::string_view::npos) return false;
    return true;
  });
}

TEST(ClSmallGroupsDeathTest, a_cpu_and_groups_that_hold_a_tile_are_taken) {
  with_groups_of("128", [] { return Cl::make({.shape = ClShape::per_item}).has_value(); });
  with_groups_of("256", [] { return Cl::make({.shape = ClShape::per_group}).has_value(); });
}

}  // namespace
}  // namespace inlay::test
