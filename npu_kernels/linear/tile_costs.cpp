#include "npu_kernels/linear/tile_costs.hpp"

#include <algorithm>

#include "npu_kernels/backend/row_partition.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

bool drains_between(const Device& device) {
  return device.queue_of[static_cast<std::size_t>(Pipe::matrix)] ==
         device.queue_of[static_cast<std::size_t>(Pipe::drain)];
}

namespace {

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

}  // namespace

double laid_out_cycles(const Device& device, const Products& p, index columns) {
  const auto depth = static_cast<double>(p.depth());
  const double source = static_cast<double>(p.columns() * p.source_bits) / 8 * depth / device.dram_bytes_per_cycle;
  constexpr double heads = 1.5;  // of short operations
  const double passes = heads * p.making_passes * static_cast<double>(byte_size(p.right.front().dtype, 1));
  const double making = static_cast<double>(columns) * depth * passes / device.vector.bytes / device.vector_units();
  return std::max(source, making);
}

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

}  // namespace inlay::npu
