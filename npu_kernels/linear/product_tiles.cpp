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

// Cycles that a row of an operand takes to load, for each column.
double load_cycles(const Device& device, const Operand& operand) {
  const Path* path = device.path(Space::global, Space::staging);
  return static_cast<double>(byte_size(operand.dtype, 1)) /
         (operand.blocked() ? path->bytes_per_cycle : path->peak(path->nd2nz));
}

// Of a tile of sums, a segment after the other: its products, of so much of the depth each, and the drain where it
// comes between.
double product_cycles(const Device& device, const Products& p, Extents tile, index step) {
  const DType dtype = p.left.front().dtype;
  const Path* way = drain_path(device);
  const index segment = round_up(p.longest(), device.fractal_block(dtype)), part = std::min(segment, step);
  const double drain = way->latency + static_cast<double>(tile.m * tile.n * byte_size(p.sum, 1)) / way->bytes_per_cycle;
  const double product =
      device.matrix.head + matrix_cycles(device.matrix, *device.rate(dtype, p.sum), static_cast<std::uint64_t>(tile.m),
                                         static_cast<std::uint64_t>(tile.n), static_cast<std::uint64_t>(part), false);
  return static_cast<double>(ceil_div(segment, part)) * product + (drains_between(device) ? drain : 0);
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
TileEstimate cheapest_tile(const Device& device, const Products& p, Extents all, Extents most, Extents unit, index sums,
                           index cores, bool own) {
  const MatrixRate* rate = device.rate(p.left.front().dtype, p.sum);
  const double products = rate->cycles / (rate->m * rate->n * rate->k);
  const double left = load_cycles(device, p.left.front()), right = load_cycles(device, p.right.front());
  const auto depth = static_cast<double>(p.depth());
  TileEstimate best{};
  for (index n = unit.n; n <= std::min(most.n, sums / unit.m); n += unit.n)
    for (index m = unit.m; m <= std::min(most.m, round_down(sums / n, unit.m)); m += unit.m) {
      const auto wide = static_cast<double>(n), high = static_cast<double>(m);
      const index down = ceil_div(all.m, m), across = ceil_div(all.n, n);
      const auto rounds = static_cast<double>(own ? ceil_div(across, cores) * down : ceil_div(across * down, cores));
      // The shorter of the two counts a little: of equals the one that loads less.
      const double work = high * wide * products, loads = high * left + wide * right;
      const double tile = depth * (std::max(work, loads) + std::min(work, loads) / 8);
      const double first = tile * rounds / static_cast<double>(down);
      const double waits = own ? std::max(0.0, laid_out_cycles(device, p, ceil_div(across, cores) * n) - first) : 0;
      const double cycles = rounds * tile * 9 / 8 + waits;
      if (best.extents.m > 0 && cycles >= best.cycles) continue;
      best = {{m, n}, cycles};
    }
  return best;
}

constexpr index streamed_k = 512;  // of a chunk of rows: short ones start sooner
// Tiles whose operands both come anew for each.
double streamed_cycles(const Device& device, const Products& p, Extents all, Extents tile, index cores) {
  const index down = ceil_div(all.m, tile.m), across = ceil_div(all.n, tile.n);
  const index tiles = ceil_div(down * across, cores);  // of a core
  const auto bytes_of_column = static_cast<double>(p.depth() * byte_size(p.left.front().dtype, 1));
  const double loads =
      static_cast<double>(down * all.n + across * all.m) * bytes_of_column / device.dram_bytes_per_cycle;
  const double loads_of_core =
      static_cast<double>(tiles * (tile.m + tile.n)) * bytes_of_column / device.dram_bytes_per_cycle_core;
  const auto products = static_cast<double>(tiles * static_cast<index>(p.segments.size()));
  // Nothing hides the first chunk, nor the last tile's way out, rounded and stored.
  const double first =
      static_cast<double>((tile.m + tile.n) * std::min(p.longest(), streamed_k) * byte_size(p.left.front().dtype, 1)) /
      device.dram_bytes_per_cycle_core;
  const double last =
      3 * static_cast<double>(tile.m * tile.n * byte_size(p.sum, 1)) / drain_path(device)->bytes_per_cycle;
  return std::max({products * product_cycles(device, p, tile, streamed_k), loads, loads_of_core}) + first + last;
}

// The right operand's columns stream by rows of the left one that stay, some of them where not all fit: the block that
// takes the least cycles, of products or loads, and of the wait for the first operands of each.
struct KeptBlock {
  Extents sum, block;  // block.m is 0: there is none
  double cycles = 0;
};
KeptBlock kept_block(const Device& device, const Products& p, Extents all, Extents unit, index sums, index staged,
                     index budget, index cores) {
  const DType dtype = p.left.front().dtype;
  const index in = byte_size(dtype, 1), out = byte_size(p.sum, 1), block = device.fractal_block(dtype);
  const index depth = round_up(p.depth(), block), segment = round_up(p.longest(), block);
  const index kept = static_cast<index>(device.memory(Space::vector).bytes) / 8;
  const auto columns = static_cast<double>(all.n), rows = static_cast<double>(all.m);
  const auto bytes_of_column = static_cast<double>(depth * in);
  KeptBlock best{};
  for (index n = unit.n; n <= std::min(all.n, sums / unit.m); n += unit.n) {
    const index most = std::min(all.m, round_down(sums / n, unit.m));
    for (index blocks = 1; blocks <= ceil_div(all.m, unit.m); ++blocks) {
      const index high = round_up(ceil_div(all.m, blocks), unit.m);
      const index m = round_up(ceil_div(high, ceil_div(high, most)), unit.m);
      if ((high * depth + staged * n * segment) * in > budget || (p.steps() > 1 && high * n * out > kept)) continue;
      const auto of_block = static_cast<double>(ceil_div(high, m) * static_cast<index>(p.segments.size()));
      const auto rounds = static_cast<double>(ceil_div(blocks * ceil_div(all.n, n), cores));
      const double loads =
          (static_cast<double>(blocks) * columns + rows) * bytes_of_column / device.dram_bytes_per_cycle;
      const double first = static_cast<double>(high + n) * bytes_of_column / device.dram_bytes_per_cycle_core;
      const double cycles = std::max(rounds * of_block * product_cycles(device, p, {m, n}, segment), loads) +
                            static_cast<double>(blocks) * first;
      // Of few rows in several segments the wider tile, if it is by a hair: fewer pass the vector unit.
      const double close = p.steps() > 1 && all.m <= m ? 1.02 : 1;
      if (best.block.m == 0 || cycles < best.cycles * close) best = {{m, n}, {high, n}, cycles};
      break;
    }
  }
  return best;
}

ProductTiles largest_tiles(const Device& device, index cores, const Products& p, bool made) {
  const DType dtype = p.left.front().dtype;
  const MatrixRate* rate = device.rate(dtype, p.sum);
  const index unit_m = std::max<index>({rate->m, device.matrix.m_granule, p.row_unit}), unit_n = column_unit(*rate),
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
    const TileEstimate shared_out =
        cheapest_tile(device, p, {rows, columns}, most, {unit_m, unit_n}, sums, cores, false);
    TileEstimate best = shared_out;
    if (made && !shared) {
      const TileEstimate own = cheapest_tile(device, p, {rows, columns}, most, {unit_m, unit_n}, sums, cores, true);
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
    const KeptBlock kept = kept_block(device, p, {rows, columns}, {unit_m, unit_n}, sums, t.staged, budget, cores);
    // Few rows in a small memory, and w comes for each of them: large tiles load less, of codes that are laid out
    // before. The estimates have to differ by more than what they leave out.
    const index element = p.source_bits + 8 * in;
    const bool before_all = made && p.makes_room;
    const double before =
        before_all ? static_cast<double>(columns * p.depth() * element / 8) / device.dram_bytes_per_cycle : 0;
    const double streamed = streamed_cycles(device, p, {rows, columns}, {t.sum_m, t.sum_n}, cores) + before;
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
  const Operand& right = p.right.front();
  const auto parts = static_cast<index>(p.right.size()), pairs = static_cast<index>(p.left.size()) * parts;
  const index tiles = ceil_div(p.rows(), t.sum_m) * ceil_div(p.columns(), t.sum_n);
  const auto products = static_cast<double>(tiles * pairs * ceil_div(p.depth(), t.feed_k));
  const auto size = [](index extent) { return static_cast<std::uint64_t>(extent); };
  const double product = matrix_cycles(device.matrix, *device.rate(right.dtype, p.sum),
                                       size(std::min(t.sum_m, p.rows())), size(t.sum_n), size(t.feed_k), false);
  const auto bytes = static_cast<double>(parts * right.rows * p.depth() * byte_size(right.dtype, 1));
  return bytes / device.dram_bytes_per_cycle > products * product / static_cast<double>(cores);
}

bool makes_right(const Device& device, index cores, const Products& p) {
  if (p.longest() == 0 || (stages_for_vector(device) && !device.feeds_are_views())) return false;
  const ProductTiles tiles = product_tiles(device, cores, p, true);
  if (tiles.own || tiles.keeps) return true;
  if (!stages_for_vector(device) || p.makes_room) return false;
  // Made anew for each block of rows, or once, stored and loaded for each.
  const DType dtype = p.left.front().dtype;
  const auto blocks = static_cast<double>(ceil_div(p.rows(), tiles.block_m));
  const double bytes = static_cast<double>(p.columns() * p.depth() * byte_size(dtype, 1));
  const auto slope = [&](VectorOp op) { return device.vector.cost[static_cast<std::size_t>(op)].slope; };
  const double making = bytes / device.vector.bytes * (slope(VectorOp::transpose) + slope(VectorOp::pack_nz));
  const double source = laid_out_cycles(device, p, 0), blocked = bytes / device.dram_bytes_per_cycle;
  return blocks * std::max(making, source) <= std::max(making, source + blocked) + blocks * blocked;
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
