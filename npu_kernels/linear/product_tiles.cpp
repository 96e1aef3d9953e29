// Which tiles: as large as the memories hold twice, so that every pipe has the next one ready.
#include <algorithm>

#include "npu_kernels/linear/products.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"
#include "npu_kernels/machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

struct Extents {
  index m, n;
};

// Cycles that a row of an operand takes to load, for each column.
double load_cycles(const Device& device, const Operand& operand) {
  const Path* path = device.path(Space::global, Space::staging);
  const bool changes = !operand.blocked() && path->nd2nz.bytes_per_cycle > 0;
  return static_cast<double>(byte_size(operand.dtype, 1)) /
         (changes ? path->nd2nz.bytes_per_cycle : path->bytes_per_cycle);
}

// Of the tiles of `sums` elements the one whose rounds over the cores take least: products or loads, which is longer.
Extents cheapest_tile(const Device& device, const Products& p, Extents all, Extents most, Extents unit, index sums,
                      index cores) {
  const MatrixRate* rate = device.rate(p.left.front().dtype, p.sum);
  const double products = rate->cycles / (rate->m * rate->n * rate->k);
  const double left = load_cycles(device, p.left.front()), right = load_cycles(device, p.right.front());
  Extents best{};
  double least = 0;
  for (index n = unit.n; n <= std::min(most.n, sums / unit.m); n += unit.n)
    for (index m = unit.m; m <= std::min(most.m, round_down(sums / n, unit.m)); m += unit.m) {
      const auto wide = static_cast<double>(n), high = static_cast<double>(m);
      const auto rounds = static_cast<double>(ceil_div(ceil_div(all.m, m) * ceil_div(all.n, n), cores));
      // The shorter of the two counts a little: of equals the one that loads less.
      const double work = high * wide * products, loads = high * left + wide * right;
      const double cycles = rounds * (std::max(work, loads) + std::min(work, loads) / 8);
      if (best.m > 0 && cycles >= least) continue;
      best = {m, n};
      least = cycles;
    }
  return best;
}

}  // namespace

bool makes_right(const Device& device, index cores, const Products& p) {
  if (!device.feeds_are_views() || !device.same_memory(Space::staging, Space::vector) || p.longest() == 0) return false;
  const ProductTiles tiles = product_tiles(device, cores, p, true);
  return tiles.block_m >= p.rows() && tiles.chunk_k >= p.longest();
}

ProductTiles product_tiles(const Device& device, index cores, const Products& p, bool made) {
  const DType dtype = p.left.front().dtype;
  const MatrixRate* rate = device.rate(dtype, p.sum);
  const index unit_m = std::max<index>({rate->m, device.matrix.m_granule, p.row_unit}), unit_n = rate->n,
              unit_k = rate->k;
  const index in = byte_size(dtype, 1), out = byte_size(p.sum, 1);
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const index rows = round_up(p.rows(), unit_m), columns = round_up(p.columns(), unit_n);
  const index depth = round_up(std::max<index>(1, p.longest()), unit_k);
  const bool shared = device.same_memory(Space::staging, Space::vector);

  // What the vector unit adds up over several steps, it keeps: twice, in a quarter of its memory.
  ProductTiles t{};
  t.staged = 2;
  t.unit = device.sync.unit_flag_bytes > 0;
  t.row_unit = p.row_unit;
  index sums = bytes(Space::accumulator) / (t.unit ? 1 : 2) / out;
  if (p.steps() > 1) sums = std::min(sums, bytes(Space::vector) * device.vector_units() / 8 / out);
  if (device.feeds_are_views()) {
    t.sum_n = unit_n;
    while (t.sum_n < columns && (t.sum_n + unit_n) * (t.sum_n + unit_n) <= sums) t.sum_n += unit_n;
    t.sum_m = std::min(rows, round_down(sums / t.sum_n, unit_m));
  } else {
    // Left and right hold a step of the unit twice.
    const Extents most{std::min(rows, bytes(Space::left) / 2 / (unit_k * in)),
                       std::min(columns, round_down(bytes(Space::right) / 2 / (unit_k * in), unit_k))};
    const Extents best = cheapest_tile(device, p, {rows, columns}, most, {unit_m, unit_n}, sums, cores);
    t.sum_m = best.m;
    t.sum_n = best.n;
  }
  t.vector_m = std::clamp<index>(round_down(bytes(Space::vector) / (shared ? 28 : 16) / (t.sum_n * out), p.row_unit),
                                 p.row_unit, round_up(ceil_div(t.sum_m, device.vector_units()), p.row_unit));
  t.feed_k = depth;
  if (!device.feeds_are_views())
    t.feed_k = std::min(depth, round_down(std::min(bytes(Space::left) / 2 / (t.sum_m * in),
                                                   bytes(Space::right) / 2 / (round_up(t.sum_n, unit_k) * in)),
                                          unit_k));

  // The left operand is staged once where all its rows are a block.
  const index budget = !shared ? bytes(Space::staging)
                       : made  ? bytes(Space::staging) / 16 * 9
                               : bytes(Space::staging) / 8 * 5;
  const auto fits = [&](index block_m, index block_n, index k) {
    const bool kept = block_m >= rows && k == depth && p.steps() == 1;
    return ((kept ? 1 : index{t.staged}) * block_m + index{t.staged} * block_n) * k * in <= budget;
  };
  t.block_m = t.sum_m;
  t.block_n = t.sum_n;
  t.chunk_k = depth;
  // Of several segments: the left operand stays with all of them, and the vector unit keeps the sums of all rows.
  const index all = round_up(p.left.front().depth, unit_k);
  const bool pairs = p.left.size() > 1 || p.right.size() > 1;
  if (p.steps() > 1 && !pairs && device.feeds_are_views() &&
      (rows * all + index{t.staged} * t.block_n * depth) * in <= budget &&
      rows * t.sum_n * out <= bytes(Space::vector) / 8) {
    t.block_m = rows;
    t.keeps = true;
    return t;
  }
  if (p.steps() > 1 || !fits(t.block_m, t.block_n, depth)) {
    const index unit = std::min(t.feed_k, round_up(64, unit_k));
    // Short chunks start sooner; blocks have long runs in any, so that more of them are on their way.
    const bool blocked = p.left.front().blocked() && p.right.front().blocked();
    t.chunk_k = std::min(depth, round_up(blocked ? 128 : 512, unit_k));
    if (blocked) t.staged = 4;
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
  ProductTiles whole = t;
  whole.block_m = rows;
  const bool may_keep = fits(rows, t.block_n, depth) && ceil_div(columns, t.block_n) >= 2 * cores;
  whole.keeps = p.steps() == 1;
  if (made) return may_keep ? whole : t;
  for (bool more = true; more;) {
    more = t.block_m <= t.block_n ? grow(t.block_m, t.sum_m, rows) : grow(t.block_n, t.sum_n, columns);
    if (!more) more = t.block_m <= t.block_n ? grow(t.block_n, t.sum_n, columns) : grow(t.block_m, t.sum_m, rows);
  }
  // Where loads take longer than products, the left operand comes once.
  const double blocks = static_cast<double>(ceil_div(rows, t.block_m) * ceil_div(columns, t.block_n));
  const double loads = blocks * static_cast<double>((t.block_m + t.block_n) * in) / device.dram_bytes_per_cycle;
  const double products = static_cast<double>(rows * columns) / peak_products(device.matrix, *rate) / device.cores;
  if (may_keep && loads > products) return whole;
  t.keeps = t.block_m >= rows;
  return t;
}

}  // namespace inlay::npu
