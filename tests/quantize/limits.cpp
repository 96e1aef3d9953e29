#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/quantize.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/backends.hpp"

namespace inlay::test {
namespace {

TEST(quantize, groups_of_any_size) {
  constexpr index largest = std::numeric_limits<index>::max();
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, scale = {0.5f};
  std::vector<std::int8_t> y(6);
  on_every_host_backend([&](const std::string&, auto run) {
    for (index group : {index{6}, largest - 1, largest}) {
      y.assign(6, -7);
      ASSERT_TRUE(ok(run(Quantize<Host>{.x = {x.data(), {2, 3}},
                                        .scale = {scale.data(), {1, 1}},
                                        .y = {y.data(), {2, 3}},
                                        .row_group = group,
                                        .column_group = group})));
      EXPECT_EQ(y, (std::vector<std::int8_t>{2, 4, 6, 8, 10, 12}));
    }
  });
}

// Rows in reverse: of bytes they work, of two codes to a byte they are refused before anything is written.
TEST(quantize, rows_in_reverse) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6}, scale = {1};
  std::vector<std::int8_t> y(6);
  on_every_host_backend([&](const std::string&, auto run) {
    y.assign(6, -7);
    Quantize<Host> op{
        .x = {x.data(), {2, 3}}, .scale = {scale.data(), {1, 1}}, .y = {y.data() + 3, {2, 3}, {-3, 1}}};
    ASSERT_TRUE(ok(run(op)));
    EXPECT_EQ(y, (std::vector<std::int8_t>{4, 5, 6, 1, 2, 3}));
    op.y.dtype = DType::i4;
    EXPECT_EQ(run(op).code(), StatusCode::invalid_argument);
    EXPECT_EQ(y, (std::vector<std::int8_t>{4, 5, 6, 1, 2, 3}));
  });
}

}  // namespace
}  // namespace inlay::test
