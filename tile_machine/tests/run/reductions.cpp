// A reduction goes by lanes, then by halves: what the rows of few elements leave out must not change a bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tile_machine/arithmetic/tiles.hpp"

namespace inlay::npu {
namespace {

float meet(VectorOp op, float a, float b) {
  if (op == VectorOp::reduce_sum) return a + b;
  return op == VectorOp::reduce_max ? (a > b ? a : b) : (a < b ? a : b);
}

// partial[c % lanes], then pairwise halves, all of them.
float by_lanes(VectorOp op, const std::vector<float>& row, std::size_t lanes) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float neutral = op == VectorOp::reduce_sum ? 0 : op == VectorOp::reduce_max ? -infinity : infinity;
  std::vector<float> partial(lanes, neutral);
  for (std::size_t c = 0; c < row.size(); ++c) partial[c % lanes] = meet(op, partial[c % lanes], row[c]);
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) partial[i] = meet(op, partial[i], partial[i + half]);
  return partial[0];
}

TEST(reductions, of_rows_shorter_than_the_lanes_have_the_bits_of_all_lanes) {
  std::mt19937 random(7);
  for (const std::size_t lanes : {1, 2, 8, 64, 1024})
    for (const std::size_t columns : {0, 1, 2, 3, 31, 32, 33, 64, 100, 1500})
      for (const VectorOp op : {VectorOp::reduce_sum, VectorOp::reduce_max, VectorOp::reduce_min})
        for (int special = 0; special < 4; ++special) {
          std::vector<float> row(columns);
          for (float& x : row) x = static_cast<float>(random() % 2000) / 64 - 15;
          const float odd[] = {1, std::nanf(""), -0.0f, std::numeric_limits<float>::infinity()};
          for (std::size_t c = random() % 3; special > 0 && c < columns; c += 1 + random() % 7) row[c] = odd[special];
          if (special == 2) std::fill(row.begin(), row.end(), -0.0f);
          float found = 5;
          Tile from, to;
          from.form.shape = {1, static_cast<index>(columns)};
          from.form.pitch = static_cast<index>(columns);
          from.data = reinterpret_cast<std::byte*>(row.data());
          to.form.shape = {1, 1};
          to.form.pitch = 1;
          to.data = reinterpret_cast<std::byte*>(&found);
          tiles::reduce(op, to, from, static_cast<std::uint32_t>(lanes));
          const float expected = by_lanes(op, row, lanes);
          ASSERT_TRUE(std::memcmp(&found, &expected, sizeof(found)) == 0 || (found != found && expected != expected))
              << found << " is not " << expected << " of " << columns << " columns in " << lanes << " lanes";
        }
}

}  // namespace
}  // namespace inlay::npu
