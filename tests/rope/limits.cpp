#include <inlay/ops/rope.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

TEST(rope, a_first_beyond_the_head_is_refused) {
  std::vector<float> x(8), y(8), table(8);
  for (index first : {std::numeric_limits<index>::max(), std::numeric_limits<index>::max() - 1, index{5}})
    expect_refused(Rope<Host>{.x = {x.data(), {1, 1, 8}},
                              .cos = {table.data(), {1, 2}},
                              .sin = {table.data() + 2, {1, 2}},
                              .y = {y.data(), {1, 1, 8}},
                              .first = first},
                   {"first is " + std::to_string(first), "2 * 2", "fit in 8"});
}

}  // namespace
}  // namespace inlay::test
