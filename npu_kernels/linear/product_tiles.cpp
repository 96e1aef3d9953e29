// Which tiles: as large as the memories hold twice, so that every pipe has the next one ready; of those the cheapest by
// the device's figures, cycles of loads and products, without an event log.
#include <algorithm>

#include "npu_kernels/backend/row_partition.hpp"
#include "npu_kernels/linear/layout.hpp"
#include "npu_kernels/linear/products.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

// Drains of a unit that has one queue for both come between products, and leave no use for a second accumulator.
bool drains_between(const Device& device) {
  return device.queue_of[static_cast<std::size_t>(Pipe::matrix)] ==
         device.queue_of[static_cast<std::size_t>(Pipe::drain)];
}

struct Extents {
  index m, n;
};

// What the costs of a layer's tiles are reckoned from.
struct Sizes {
  const Device& device;
  const Products& p;
  const index cores;
  const DType dtype = p.left.front().dtype;
  const MatrixRate& rate = *device.rate(dtype, p.sum);
  const index in = byte_size(dtype, 1), out = byte_size(p.sum, 1), block = device.fractal_block(dtype);
  const Extents unit{std::max<index>({rate.m, device.matrix.m_granule, p.row_unit}), column_unit(rate)};
  const Extents all{round_up(p.rows(), unit.m), round_up(p.columns(), unit.n)};  // rows, columns of the result

  index bytes(Space space) const { return static_cast<index>(device.memory(space).bytes); }
  double product(index m, index n, index k) const {
    const auto size = [](index extent) { return static_cast<std::uint64_t>(extent); };
    return matrix_cycles(device.matrix, rate, size(m), size(n), size(k), false);
  }
  // So many bytes of global memory, by all cores or by one.
  double loads(index bytes) const { return static_cast<double>(bytes) / device.dram_bytes_per_cycle; }
  double loads_of_core(index bytes) const { return static_cast<double>(bytes) / device.dram_bytes_per_cycle_core; }
};

// Cycles that a row of an operand takes to load, for each column.
double load_cycles(const Device& device, const Operand& operand) {
  const Path* path = device.path(Space::global, Space::staging);
  return static_cast<double>(byte_size(operand.dtype, 1)) /
         (operand.blocked() ? path->bytes_per_cycle : path->peak(path->nd2nz));
}

// Of a tile of sums, a segment after the other: its products, of so much of the depth each, and the drain where it
// comes between.
double product_cycles(const Sizes& s, Extents tile, index step) {
  const Path* way = drain_path(s.device);
  const index segment = round_up(s.p.longest(), s.block), part = std::min(segment, step);
  const double drain = way->latency + static_cast<double>(tile.m * tile.n * s.out) / way->bytes_per_cycle;
  const double product = s.device.matrix.head + s.product(tile.m, tile.n, part);
  return static_cast<double>(ceil_div(segment, part)) * product + (drains_between(s.device) ? drain : 0);
}

// The right operand comes from global memory once, whoever lays it out anew; of `columns` of it each core's vector
// units make theirs.
double laid_out_cycles(const Device& device, const Products& p, index columns) {
  const auto depth = static_cast<double>(p.depth());
  const double source = static_cast<double>(p.columns() * p.source_bits) / 8 * depth / device.dram_bytes_per_cycle;
  constexpr double heads = 1.5;  // of short operations
  const double passes = heads * p.making_passes * static_cast<double>(byte_size(p.right.front().dtype, 1));
  const double making = static_cast<double>(columns) * depth * passes / device.vector.bytes / device.vector_units();
  return std::max(source, making);
}

struct TileEstimate {
  Extents extents;
  double cycles = 0;
};

// Of the tiles of `sums` elements the one whose rounds over the cores take least: products or loads, which is longer,
// of all columns of the depth. `own`: a core has all rows of its columns, and lays them out while the first rows are
// multiplied.
TileEstimate cheapest_tile(const Sizes& s, Extents most, index sums, bool own) {
  const Products& p = s.p;
  const Extents all = s.all, unit = s.unit;
  const double products = s.rate.cycles / (s.rate.m * s.rate.n * s.rate.k);
  const double left = load_cycles(s.device, p.left.front()), right = load_cycles(s.device, p.right.front());
  const auto depth = static_cast<double>(p.depth());
  TileEstimate best{};
  for (index n = unit.n; n <= std::min(most.n, sums / unit.m); n += unit.n)
    for (index m = unit.m; m <= std::min(most.m, round_down(sums / n, unit.m)); m += unit.m) {
      const auto wide = static_cast<double>(n), high = static_cast<double>(m);
      const index down = ceil_div(all.m, m), across = ceil_div(all.n, n);
      const auto rounds =
          static_cast<double>(own ? ceil_div(across, s.cores) * down : ceil_div(across * down, s.cores));
      // The shorter of the two counts a little: of equals the one that loads less.
      const double work = high * wide * products, loads = high * left + wide * right;
      const double tile = depth * (std::max(work, loads) + std::min(work, loads) / 8);
      const double first = tile * rounds / static_cast<double>(down);
      const double waits = own ? std::max(0.0, laid_out_cycles(s.device, p, ceil_div(across, s.cores) * n) - first) : 0;
      const double cycles = rounds * tile * 9 / 8 + waits;
      if (best.extents.m > 0 && cycles >= best.cycles) continue;
      best = {{m, n}, cycles};
    }
  return best;
}

constexpr index streamed_k = 512;  // of a chunk of rows: short ones start sooner
// Tiles whose operands both come anew for each.
double streamed_cycles(const Sizes& s, Extents tile) {
  const index down = ceil_div(s.all.m, tile.m), across = ceil_div(s.all.n, tile.n);
  const index tiles = ceil_div(down * across, s.cores), bytes_of_column = s.p.depth() * s.in;  // of a core
  const double loads = s.loads((down * s.all.n + across * s.all.m) * bytes_of_column);
  const double loads_of_core = s.loads_of_core(tiles * (tile.m + tile.n) * bytes_of_column);
  const auto products = static_cast<double>(tiles * static_cast<index>(s.p.segments.size()));
  // Nothing hides the first chunk, nor the last tile's way out, rounded and stored.
  const double first = s.loads_of_core((tile.m + tile.n) * std::min(s.p.longest(), streamed_k) * s.in);
  const double last = 3 * static_cast<double>(tile.m * tile.n * s.out) / drain_path(s.device)->bytes_per_cycle;
  return std::max({products * product_cycles(s, tile, streamed_k), loads, loads_of_core}) + first + last;
}

// The right operand's columns stream by rows of the left one that stay, some of them where not all fit: the block that
// takes the least cycles, of products or loads, and of the wait for the first operands of each.
struct KeptBlock {
  Extents sum, block;  // block.m is 0: there is none
  double cycles = 0;
};
KeptBlock kept_block(const Sizes& s, index sums, index staged, index budget) {
  const index depth = round_up(s.p.depth(), s.block), segment = round_up(s.p.longest(), s.block);
  const index kept = s.bytes(Space::vector) / 8, segments = static_cast<index>(s.p.segments.size());
  KeptBlock best{};
  for (index n = s.unit.n; n <= std::min(s.all.n, sums / s.unit.m); n += s.unit.n) {
    const index most = std::min(s.all.m, round_down(sums / n, s.unit.m));
    for (index blocks = 1; blocks <= ceil_div(s.all.m, s.unit.m); ++blocks) {
      const index high = round_up(ceil_div(s.all.m, blocks), s.unit.m);
      const index m = round_up(ceil_div(high, ceil_div(high, most)), s.unit.m);
      if ((high * depth + staged * n * segment) * s.in > budget || (s.p.steps() > 1 && high * n * s.out > kept))
        continue;
      const auto products =
          static_cast<double>(ceil_div(blocks * ceil_div(s.all.n, n), s.cores) * ceil_div(high, m) * segments);
      const double loads = s.loads((blocks * s.all.n + s.all.m) * depth * s.in);
      const double first = s.loads_of_core((high + n) * depth * s.in);
      const double cycles =
          std::max(products * product_cycles(s, {m, n}, segment), loads) + static_cast<double>(blocks) * first;
      // Of few rows in groups the wider tile, if it is by a hair: fewer pass the vector unit.
      const double close = s.p.makes_room && s.p.steps() > 1 && s.all.m <= m ? 1.02 : 1;
      if (best.block.m == 0 || cycles < best.cycles * close) best = {{m, n}, {high, n}, cycles};
      break;
    }
  }
  return best;
}

ProductTiles largest_tiles(const Device& device, index cores, const Products& p, bool made) {
  const Sizes s{device, p, cores};
  const index unit_m = s.unit.m, unit_n = s.unit.n, unit_k = s.rate.k, in = s.in, out = s.out;
  const index rows = s.all.m, columns = s.all.n, depth = round_up(std::max<index>(1, p.longest()), unit_k);
  const auto bytes = [&](Space space) { return s.bytes(space); };
  const bool shared = device.same_memory(Space::staging, Space::vector);

  // What the vector unit adds up over several steps, it keeps: twice, in a quarter of its memory.
  ProductTiles t{};
  t.staged = 2;
  t.unit = device.sync.unit_flag_bytes > 0;
  t.row_unit = p.row_unit;
  t.handed = p.steps() > 1 ? 8 : 2;
  t.accumulators = t.unit || drains_between(device) ? 1 : 2;
  index sums = bytes(Space::accumulator) / t.accumulators / out;
  if (p.steps() > 1) sums = std::min(sums, bytes(Space::vector) * device.vector_units() / 8 / out);
  if (device.feeds_are_views()) {
    t.sum_n = unit_n;
    while (t.sum_n < columns && (t.sum_n + unit_n) * (t.sum_n + unit_n) <= sums) t.sum_n += unit_n;
    t.sum_m = std::min(rows, round_down(sums / t.sum_n, unit_m));
    // Of few rows all are a tile: a wider one, for which they are loaded less often.
    const index widest = std::min(ceil_div(columns, 4 * cores), 8 * unit_n);
    while (!p.makes_room && t.sum_m == rows && t.sum_n < widest && rows * (t.sum_n + unit_n) <= sums) t.sum_n += unit_n;
  } else {
    // Left and right hold a step of the unit twice.
    // The vector unit takes the rows that belong together at once, and has half a dozen such tiles.
    const index together = round_down(bytes(Space::vector) / 16 / (p.row_unit * out), unit_n);
    const Extents most{std::min(rows, bytes(Space::left) / 2 / (unit_k * in)),
                       std::min({columns, together, round_down(bytes(Space::right) / 2 / (unit_k * in), unit_k)})};
    const TileEstimate shared_out = cheapest_tile(s, most, sums, false);
    TileEstimate best = shared_out;
    if (made && !shared) {
      const TileEstimate own = cheapest_tile(s, most, sums, true);
      // Sums of groups go through the vector units one by one, and keep them from laying out: from eight rows on, and
      // where a core has few columns, all of them lay out before (measured on ascend-a2-like, docs/npu.md).
      const bool beside = !p.makes_room || (p.rows() <= 4 * p.row_unit && columns >= 64 * cores);
      t.own = beside && own.cycles < shared_out.cycles + laid_out_cycles(device, p, ceil_div(columns, cores));
      if (t.own) best = own;
    }
    t.sum_m = best.extents.m;
    t.sum_n = best.extents.n;
    // Four tiles of 16 columns as they come and two as they go, beside what an epilogue keeps of a large tile.
    const index room = bytes(Space::vector) / 8 * (t.sum_m * t.sum_n * out <= bytes(Space::vector) / 8 ? 4 : 3);
    const index making = p.making_bytes > 0 ? p.making_bytes : 4 * p.source_bits / 8;
    t.stored_k = std::min(depth, round_down(room / (16 * (making + 2 * in)), unit_k));
    if (t.stored_k > p.making_depth && p.making_depth % unit_k == 0)
      t.stored_k = round_down(t.stored_k, p.making_depth);
    t.stored_k = std::max(t.stored_k, unit_k);
  }
  // Where not even the smallest tile fits it is taken, and the memory refuses it by its name.
  t.sum_m = std::max(t.sum_m, unit_m);
  t.sum_n = std::max(t.sum_n, unit_n);
  const auto vector_rows = [&](index sum_m, index sum_n) {
    return std::clamp<index>(round_down(bytes(Space::vector) / (shared ? 28 : 16) / (sum_n * out), p.row_unit),
                             p.row_unit, round_up(ceil_div(sum_m, device.vector_units()), p.row_unit));
  };
  t.vector_m = vector_rows(t.sum_m, t.sum_n);
  t.feed_k = depth;
  if (!device.feeds_are_views())
    t.feed_k = std::min(depth, round_down(std::min(bytes(Space::left) / 2 / (t.sum_m * in),
                                                   bytes(Space::right) / 2 / (round_up(t.sum_n, unit_k) * in)),
                                          unit_k));
  t.feed_k = std::max(t.feed_k, unit_k);

  // The left operand is staged once where all its rows are a block.
  const index budget = !shared ? bytes(Space::staging)
                       : made  ? bytes(Space::staging) / 16 * 9
                               : bytes(Space::staging) / 8 * 5;
  const auto streams = [&](index block_m, index block_n, index k) {
    return index{t.staged} * (block_m + block_n) * k * in <= budget;
  };
  const auto fits = [&](index block_m, index block_n, index k) {
    const bool kept = block_m >= rows && k == depth && p.steps() == 1;
    return ((kept ? 1 : index{t.staged}) * block_m + index{t.staged} * block_n) * k * in <= budget;
  };
  t.block_m = t.sum_m;
  t.block_n = t.sum_n;
  t.chunk_k = t.step_k = depth;
  // Of several segments the left operand stays with all of them, and the vector unit keeps the sums of all rows.
  const bool pairs = p.left.size() > 1 || p.right.size() > 1;
  ProductTiles keeping = t;
  if (!pairs && device.feeds_are_views() && p.longest() > 0) {
    const KeptBlock kept = kept_block(s, sums, t.staged, budget);
    // Few rows in a small memory, and w comes for each of them: large tiles load less, of codes that are laid out
    // before. The estimates have to differ by more than what they leave out.
    const index element = p.source_bits + 8 * in;
    const double before = made && p.makes_room ? s.loads(columns * p.depth() * element / 8) : 0;
    const double streamed = streamed_cycles(s, {t.sum_m, t.sum_n}) + before;
    keeping.keeps = kept.block.m > 0 && kept.cycles <= (p.makes_room && p.steps() > 1 ? 1.0 : 1.25) * streamed;
    if (keeping.keeps) {
      keeping.sum_m = kept.sum.m, keeping.sum_n = kept.sum.n;
      keeping.block_m = kept.block.m, keeping.block_n = kept.block.n;
      keeping.vector_m = vector_rows(keeping.sum_m, keeping.sum_n);
    }
  }
  if (keeping.keeps) return keeping;
  // Where the matrix unit has memories of its own, the first product of a deep layer would wait for all of its depth.
  const bool waits = !device.feeds_are_views() && depth * in > (p.given ? 1024 : 1536);
  if (p.steps() > 1 || waits || !fits(t.block_m, t.block_n, depth)) {
    const index unit = std::min(t.feed_k, round_up(64, unit_k));
    // Short chunks start sooner; blocks have long runs in any, so that more of them are on their way.
    const bool blocked = p.left.front().blocked() && p.right.front().blocked();
    t.chunk_k = std::min(depth, round_up(blocked ? 128 : streamed_k, unit_k));
    if (blocked) t.staged = 4;
    while (t.chunk_k > unit && !streams(t.block_m, t.block_n, t.chunk_k)) t.chunk_k -= unit;
    while (t.staged > 2 && !streams(t.block_m, t.block_n, t.chunk_k)) --t.staged;
    while (t.chunk_k > unit_k && !streams(t.block_m, t.block_n, t.chunk_k)) t.chunk_k -= unit_k;
    t.feed_k = std::min(t.feed_k, t.chunk_k);
    // The left operand is for all cores and comes from the L2, the right one from global memory, by turns in one queue.
    // Cores in step would leave global memory idle while all of them load from the L2.
    t.step_k = blocked && p.given && device.l2.bytes > 0 ? unit_k : t.chunk_k;
    return t;
  }
  t.keeps = t.block_m >= rows;
  return t;
}

// Of a layer that is cut: tile by tile, where all of the depth stays; else in parts, if what comes again for each block
// of rows is more than the sums so far, which go out and come back.
ProductTiles tiles_of_layer(const Device& device, index cores, const Products& p, bool made) {
  const ProductTiles whole = largest_tiles(device, cores, p, made);
  if (p.segments.size() == 1 || p.makes_room) return whole;
  Products first = p;
  first.segments.resize(1);
  ProductTiles parts = largest_tiles(device, cores, first, made);
  parts.parts = true;
  const auto again = [&](const ProductTiles& t) {
    return (ceil_div(p.rows(), t.block_m) - 1) * p.columns() * p.depth() * byte_size(p.left.front().dtype, 1);
  };
  const auto cuts = static_cast<index>(p.segments.size()) - 1;
  const index so_far = 2 * cuts * p.rows() * p.columns() * byte_size(p.sum, 1);
  return whole.keeps && again(whole) <= again(parts) + so_far ? whole : parts;
}

// Rows that the vector unit takes at once where its memory is staging too: what chunks, sums that are kept and panels
// of a right operand that is made leave is for the tiles of an epilogue. One of segments sees for itself.
index rows_beside_chunks(const Device& device, const Products& p, const ProductTiles& t, bool made) {
  constexpr index panel = 16, panels = 8, columns = 6;  // columns: of a granule for each row
  const index tiles = t.parts ? 11 : 9;                 // with sums so far
  const index in = byte_size(p.left.front().dtype, 1), out = byte_size(p.sum, 1);
  const Memory& memory = device.memory(Space::vector);
  const auto all = static_cast<index>(memory.bytes);
  const index kept = p.steps() > 1 ? 2 * kept_rows(device.vector_units(), t) * t.sum_n * out : 0;
  const index depth = made ? row_tile(device, p.left.front().dtype, t.chunk_k, 2 * panel * in).depth : 0;
  const index room = all - all / 64 - staged_bytes(device, p, t) - kept - panels * panel * depth * in;
  return std::max(p.row_unit, round_down(room / (tiles * t.sum_n * out + columns * memory.align), p.row_unit));
}

}  // namespace

// Each has blocks of y to multiply, or rows to prepare, and so many elements of both operands at least: a core's start,
// its rings and the meeting of all cores cost more than these take.
std::uint32_t cores_of_layer(const GlobalMemory& memory, index rows, index channels, index depth, index blocks) {
  constexpr index elements_of_a_core = 16384;
  const index pieces = std::max(blocks, ceil_div(rows + channels, 4 * panel_rows));
  return cores_for(std::min(pieces, ceil_div((rows + channels) * depth, elements_of_a_core)), 1, memory.cores());
}

void cut(Products& p, const Device& device, DType dtype) {
  constexpr index rows = 512, longest = 8192;  // that stay in half of the memory; bytes of one
  const index bytes = std::min<index>(static_cast<index>(device.memory(Space::staging).bytes) / 2 / rows, longest);
  const bool stays = stages_for_vector(device) && device.feeds_are_views() && bytes >= longest / 2;
  const index depth = p.depth(), cuts = stays ? ceil_div(depth, bytes / byte_size(dtype, 1)) : 1;
  const index of_cut =
      round_up(ceil_div(depth, std::max<index>(1, cuts)), std::lcm(cut_granule, device.fractal_block(dtype)));
  if (cuts <= 1) return;
  p.segments.clear();
  for (index k = 0; k < depth; k += of_cut) p.segments.push_back({k, std::min(of_cut, depth - k)});
}

bool bound_by_right(const Device& device, index cores, const Products& p, const ProductTiles& t) {
  const Sizes s{device, p, cores};
  const auto parts = static_cast<index>(p.right.size()), pairs = static_cast<index>(p.left.size()) * parts;
  const index tiles = ceil_div(p.rows(), t.sum_m) * ceil_div(p.columns(), t.sum_n);
  const auto products = static_cast<double>(tiles * pairs * ceil_div(p.depth(), t.feed_k));
  const double product = s.product(std::min(t.sum_m, p.rows()), t.sum_n, t.feed_k);
  return s.loads(parts * p.columns() * p.depth() * s.in) > products * product / static_cast<double>(cores);
}

bool makes_right(const Device& device, index cores, const Products& p) {
  const bool in_staging = stages_for_vector(device);
  if (p.longest() == 0 || (in_staging && !device.feeds_are_views())) return false;
  if (in_staging && !p.makes_room) return true;  // again for each block of rows: to store and load it is no less
  const ProductTiles tiles = product_tiles(device, cores, p, true);
  return tiles.own || tiles.keeps;
}

index staged_bytes(const Device& device, const Products& p, const ProductTiles& t) {
  const DType dtype = p.left.front().dtype;
  const index left = t.keeps ? t.block_m * round_up(t.parts ? p.longest() : p.depth(), device.fractal_block(dtype))
                             : index{t.staged} * t.block_m * t.chunk_k;
  return (left + index{t.staged} * t.block_n * t.chunk_k) * byte_size(dtype, 1);
}

ProductTiles product_tiles(const Device& device, index cores, const Products& p, bool made) {
  ProductTiles tiles = tiles_of_layer(device, cores, p, made);
  tiles.early = p.given && p.longest() > 0 && bound_by_right(device, cores, p, tiles);
  if (stages_for_vector(device) && !p.makes_room)
    tiles.vector_m = std::min(tiles.vector_m, rows_beside_chunks(device, p, tiles, made));
  return tiles;
}

}  // namespace inlay::npu
