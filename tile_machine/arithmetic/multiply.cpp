// The matrix unit in the order of the device, one product after the other: checked mode.
#include <vector>

#include "tile_machine/arithmetic/elements.hpp"

namespace inlay::npu::tiles {

namespace {

std::vector<float> widened(const Tile& tile) {
  std::vector<float> values(static_cast<std::size_t>(tile.form.elements()));
  for (index row = 0; row < tile.form.rows(); ++row)
    load(tile, row, 0, tile.form.columns(), values.data() + row * tile.form.columns());
  return values;
}

void multiply_ints(const Tile& acc, const float* a, const float* b, index k, bool init) {
  for (index row = 0; row < acc.form.rows(); ++row)
    for (index column = 0; column < acc.form.columns(); ++column) {
      std::int32_t* to = element<std::int32_t>(acc, row, column);
      std::uint32_t sum = init ? 0u : static_cast<std::uint32_t>(*to);
      for (index j = 0; j < k; ++j)
        sum += static_cast<std::uint32_t>(static_cast<std::int32_t>(a[row * k + j]) *
                                          static_cast<std::int32_t>(b[column * k + j]));
      *to = static_cast<std::int32_t>(sum);
    }
}

}  // namespace

void multiply(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics) {
  Tile columns = b;
  columns.form = b.form.transposed();
  const std::vector<float> x = widened(a), y = widened(columns);
  const index k = a.form.columns(), step = std::max<index>(1, numerics.k_block);
  if (acc.form.dtype == DType::i32) return multiply_ints(acc, x.data(), y.data(), k, init);
  const auto add = [&](float p, float q, float sum) {
    return numerics.fused_multiply_add ? std::fma(p, q, sum) : p * q + sum;
  };
  for (index row = 0; row < acc.form.rows(); ++row)
    for (index column = 0; column < acc.form.columns(); ++column) {
      const float *p = x.data() + row * k, *q = y.data() + column * k;
      float* to = element<float>(acc, row, column);
      float sum = init ? 0.0f : *to;
      for (index first = 0; first < k; first += step) {
        if (step == 1) {
          sum = add(p[first], q[first], sum);
          continue;
        }
        float block = p[first] * q[first];
        for (index j = first + 1; j < std::min(k, first + step); ++j) block = add(p[j], q[j], block);
        sum += block;
      }
      *to = sum;
    }
}

}  // namespace inlay::npu::tiles
