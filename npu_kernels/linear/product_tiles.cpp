// Which tiles: as large as the memories hold twice, so that every pipe has the next one ready.
#include <algorithm>

#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

index vector_units(const Device& device) {
  return device.streams.empty() ? 1 : device.streams[device.stream_of(Pipe::vector)].count;
}

}  // namespace

ProductTiles product_tiles(const Device& device, index cores, const Products& p) {
  const DType dtype = p.left.front().dtype;
  const MatrixRate* rate = device.rate(dtype, p.sum);
  const index unit_m = std::max<index>(rate->m, device.matrix.m_granule), unit_n = rate->n, unit_k = rate->k;
  const index in = byte_size(dtype, 1), out = byte_size(p.sum, 1);
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const index rows = round_up(p.rows(), unit_m), columns = round_up(p.columns(), unit_n);
  const index depth = round_up(std::max<index>(1, p.longest()), unit_k);
  const bool shared = device.same_memory(Space::staging, Space::vector);

  // What the vector unit adds up over several steps, it keeps: twice, in a quarter of its memory.
  ProductTiles t{};
  index sums = bytes(Space::accumulator) / 2 / out;
  if (p.steps() > 1) sums = std::min(sums, bytes(Space::vector) * vector_units(device) / 8 / out);
  t.sum_n = unit_n;
  while (t.sum_n < columns && (t.sum_n + unit_n) * (t.sum_n + unit_n) <= sums) t.sum_n += unit_n;
  t.sum_m = std::min(rows, round_down(sums / t.sum_n, unit_m));
  t.vector_m = std::clamp<index>(bytes(Space::vector) / (shared ? 24 : 16) / (t.sum_n * out), 1,
                                 ceil_div(t.sum_m, vector_units(device)));
  t.feed_k = depth;
  if (!device.feeds_are_views())
    t.feed_k = std::min(depth, round_down(std::min(bytes(Space::left) / 2 / (t.sum_m * in),
                                                   bytes(Space::right) / 2 / (round_up(t.sum_n, unit_k) * in)),
                                          unit_k));

  const index budget = shared ? bytes(Space::staging) / 8 * 3 : bytes(Space::staging);
  const auto fits = [&](index block_m, index block_n, index k) { return 2 * (block_m + block_n) * k * in <= budget; };
  t.block_m = t.sum_m;
  t.block_n = t.sum_n;
  t.chunk_k = depth;
  if (p.steps() > 1 || !fits(t.block_m, t.block_n, depth)) {
    const index unit = std::min(t.feed_k, round_up(64, unit_k));
    while (t.chunk_k > unit && !fits(t.block_m, t.block_n, t.chunk_k)) t.chunk_k -= unit;
    t.feed_k = std::min(t.feed_k, t.chunk_k);
    return t;
  }
  // All of the depth is staged: larger blocks load less, as long as every core has one.
  const auto grow = [&](index& extent, index step, index limit) {
    const index before = extent;
    extent = std::min(limit, extent + step);
    const index blocks = ceil_div(rows, t.block_m) * ceil_div(columns, t.block_n);
    if (fits(t.block_m, t.block_n, depth) && blocks >= 2 * cores) return extent > before;
    extent = before;
    return false;
  };
  for (bool more = true; more;) {
    more = t.block_m <= t.block_n ? grow(t.block_m, t.sum_m, rows) : grow(t.block_n, t.sum_n, columns);
    if (!more) more = t.block_m <= t.block_n ? grow(t.block_n, t.sum_n, columns) : grow(t.block_m, t.sum_m, rows);
  }
  return t;
}

}  // namespace inlay::npu
