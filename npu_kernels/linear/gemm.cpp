#include "npu_kernels/linear/gemm.hpp"

#include <algorithm>
#include <optional>

#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

GemmTiles gemm_tiles(const Device& device, index cores, const GemmOperands& op) {
  const MatrixRate* rate = device.rate(op.a.dtype, op.c.dtype);
  const index unit_m = std::max<index>(rate->m, device.matrix.m_granule), unit_n = rate->n, unit_k = rate->k;
  const index in = byte_size(op.a.dtype, 1), out = byte_size(op.c.dtype, 1);
  const auto bytes = [&](Space space) { return static_cast<index>(device.memory(space).bytes); };
  const index rows = round_up(op.c.rows(), unit_m), columns = round_up(op.c.columns(), unit_n);
  const index depth = round_up(op.a.columns(), unit_k);

  GemmTiles t{};
  const index sums = bytes(Space::accumulator) / 2 / out;
  t.sum_n = unit_n;
  while (t.sum_n < columns && (t.sum_n + unit_n) * (t.sum_n + unit_n) <= sums) t.sum_n += unit_n;
  t.sum_m = std::min(rows, round_down(sums / t.sum_n, unit_m));
  t.feed_k = depth;
  if (!device.feeds_are_views())
    t.feed_k = std::min(
        depth, round_down(std::min(bytes(Space::left) / 2 / (t.sum_m * in), bytes(Space::right) / 2 / (t.sum_n * in)),
                          unit_k));

  const bool direct = device.path(Space::accumulator, Space::global) != nullptr;
  const bool shared = device.same_memory(Space::staging, Space::vector);
  const index budget = bytes(Space::staging) / 8 * 7;
  const auto fits = [&](index block_m, index block_n, index k) {
    const index result_rows = direct || !shared ? 0 : 2 * t.sum_m * block_n * out;
    return 2 * (block_m + block_n) * k * in + result_rows <= budget;
  };
  t.block_m = t.sum_m;
  t.block_n = t.sum_n;
  t.chunk_k = depth;
  if (!fits(t.block_m, t.block_n, depth)) {
    const index unit = std::min(t.feed_k, round_up(256, unit_k));
    while (t.chunk_k > unit && !fits(t.block_m, t.block_n, t.chunk_k)) t.chunk_k -= unit;
    t.feed_k = std::min(t.feed_k, t.chunk_k);
    return t;
  }
  // All of K is staged: larger blocks load less, as long as every core has one.
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
  // As many blocks, but of one size.
  const auto even = [](index extent, index block, index granule) {
    return std::min(block, round_up(ceil_div(extent, ceil_div(extent, block)), granule));
  };
  t.block_m = even(rows, t.block_m, t.sum_m);
  t.block_n = even(columns, t.block_n, t.sum_n);
  return t;
}

Problem gemm_problem(const GemmOperands& op) {
  const index m = op.c.rows(), n = op.c.columns(), k = op.a.columns();
  const index bytes = (m + n) * byte_size(op.a.dtype, k) + m * byte_size(op.c.dtype, n);
  return {static_cast<std::uint64_t>(bytes), {{op.a.dtype, op.c.dtype, static_cast<std::uint64_t>(2 * m * n * k)}}};
}

void gemm(Core& core, const GemmOperands& op) {
  const GemmTiles t = gemm_tiles(core.device(), core.block_dim(), op);
  const index rows = op.c.rows(), columns = op.c.columns(), depth = op.a.columns();
  const bool direct = core.device().path(Space::accumulator, Space::global) != nullptr;

  Ring a = core.ring("a", Space::staging, {t.block_m, t.chunk_k}, op.a.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz);
  Ring b = core.ring("b", Space::staging, {t.block_n, t.chunk_k}, op.b.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz);
  Ring left =
      core.ring("left", Space::left, {t.sum_m, t.feed_k}, op.a.dtype, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring right =
      core.ring("right", Space::right, {t.feed_k, t.sum_n}, op.b.dtype, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring sums = core.ring("sums", Space::accumulator, {t.sum_m, t.sum_n}, op.c.dtype, {2, Pipe::matrix, Pipe::drain});
  std::optional<Ring> results;
  if (!direct)
    results.emplace(
        core.ring("results", Space::vector, {t.sum_m, t.block_n}, op.c.dtype, {2, Pipe::drain, Pipe::store}));

  const index blocks_n = ceil_div(columns, t.block_n), blocks = ceil_div(rows, t.block_m) * blocks_n;
  const index chunks = ceil_div(depth, t.chunk_k);
  const index me = core.block_idx(), cores = core.block_dim();
  const index steps = me < blocks ? ceil_div(blocks - me, cores) * chunks : 0;

  struct Step {
    index row, rows, column, columns, k, ks;
  };
  const auto step_at = [&](index step) {
    const index block = me + step / chunks * cores;
    const index row = block / blocks_n * t.block_m, column = block % blocks_n * t.block_n,
                k = step % chunks * t.chunk_k;
    return Step{row, std::min(t.block_m, rows - row), column, std::min(t.block_n, columns - column),
                k,   std::min(t.chunk_k, depth - k)};
  };

  const auto load = [&](const Step& s) {
    core.nd2nz(a.acquire().slice(0, s.rows, 0, s.ks), op.a.slice(s.row, s.rows, s.k, s.ks));
    a.commit();
    core.nd2nz(b.acquire().slice(0, s.columns, 0, s.ks), op.b.slice(s.column, s.columns, s.k, s.ks));
    b.commit();
  };

  Tensor sum;
  const auto multiply = [&](const Step& s) {
    const bool first = s.k == 0, last = s.k + s.ks == depth;
    const Tensor staged_a = a.wait(), staged_b = b.wait();
    for (index r = 0; r < s.rows; r += t.sum_m) {
      const index m = std::min(t.sum_m, s.rows - r);
      Tensor result;
      if (last && !direct) result = results->acquire().slice(0, m, 0, s.columns);
      for (index c = 0; c < s.columns; c += t.sum_n) {
        const index n = std::min(t.sum_n, s.columns - c);
        if (first) sum = sums.acquire().slice(0, m, 0, n);
        for (index k = 0; k < s.ks; k += t.feed_k) {
          const index ks = std::min(t.feed_k, s.ks - k);
          core.load_a(left.acquire().slice(0, m, 0, ks), staged_a.slice(r, m, k, ks));
          left.commit();
          core.load_b(right.acquire().slice(0, ks, 0, n), staged_b.slice(c, n, k, ks), true);
          right.commit();
          core.mma(sum, left.wait().slice(0, m, 0, ks), right.wait().slice(0, ks, 0, n), first && k == 0);
          left.release();
          right.release();
        }
        if (!last) continue;
        sums.commit();
        const Tensor to = direct ? op.c.slice(s.row + r, m, s.column + c, n) : result.slice(0, m, c, n);
        core.drain(to, sums.wait().slice(0, m, 0, n));
        sums.release();
      }
      if (!last || direct) continue;
      results->commit();
      core.copy(op.c.slice(s.row + r, m, s.column, s.columns), results->wait().slice(0, m, 0, s.columns));
      results->release();
    }
    a.release();
    b.release();
  };

  if (steps > 0) load(step_at(0));
  for (index step = 0; step < steps; ++step) {
    if (step + 1 < steps) load(step_at(step + 1));
    multiply(step_at(step));
  }
}

}  // namespace inlay::npu
