#include "npu_kernels/linear/products.hpp"

#include <algorithm>
#include <optional>

#include "npu_kernels/linear/handover.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Sums of nothing.
void pass_zeros(Core& core, const Products& p, const ProductTiles& t, const Consumer& consume) {
  Tensor zeros = core.alloc("zeros", Space::vector, {t.vector_m, t.sum_n}, p.sum);
  const index across = ceil_div(p.columns(), t.sum_n), tiles = ceil_div(p.rows(), t.vector_m) * across;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index row = i / across * t.vector_m, column = i % across * t.sum_n;
    const index m = std::min(t.vector_m, p.rows() - row), n = std::min(t.sum_n, p.columns() - column);
    const Tensor tile = zeros.slice(0, m, 0, n);
    core.vfill(tile, 0);
    for (index step = 0; step < p.steps(); ++step)
      consume({.tile = tile, .row = row, .column = column, .at = 0, .step = step, .last = step + 1 == p.steps()});
  }
}

}  // namespace

void multiply(Core& core, const Products& p, const ProductTiles& t, const Tensor& handover, const Consumer& consume) {
  if (p.depth() == 0) return pass_zeros(core, p, t, consume);
  const DType in = p.left.front().dtype;
  Ring a = core.ring("a", Space::staging, {t.block_m, t.chunk_k}, in, {2, Pipe::load, Pipe::feed}, Layout::nz);
  Ring b = core.ring("b", Space::staging, {t.block_n, t.chunk_k}, in, {2, Pipe::load, Pipe::feed}, Layout::nz);
  Ring left = core.ring("left", Space::left, {t.sum_m, t.feed_k}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring right = core.ring("right", Space::right, {t.feed_k, t.sum_n}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring sums = core.ring("sums", Space::accumulator, {t.sum_m, t.sum_n}, p.sum, {2, Pipe::matrix, Pipe::drain});
  SumsToVector out(core, t, p.sum, handover);

  const index rows = p.rows(), columns = p.columns();
  const index blocks_n = ceil_div(columns, t.block_n), blocks = ceil_div(rows, t.block_m) * blocks_n;
  const index chunks = std::max<index>(1, ceil_div(p.segment, t.chunk_k)), of_block = p.steps() * chunks;
  const index me = core.block_idx(), cores = core.block_dim();
  const index turns = me < blocks ? ceil_div(blocks - me, cores) * of_block : 0;

  struct Turn {
    index row, rows, column, columns, step, k, depth, first;  // first: of the segment in the operands
    std::size_t left, right;
  };
  const auto turn_at = [&](index turn) {
    const index block = me + turn / of_block * cores, step = turn % of_block / chunks, k = turn % chunks * t.chunk_k;
    const index row = block / blocks_n * t.block_m, column = block % blocks_n * t.block_n;
    const auto pair = static_cast<std::size_t>(step % p.pairs());
    return Turn{.row = row,
                .rows = std::min(t.block_m, rows - row),
                .column = column,
                .columns = std::min(t.block_n, columns - column),
                .step = step,
                .k = k,
                .depth = std::min(t.chunk_k, p.segment - k),
                .first = step / p.pairs() * p.stride,
                .left = pair / p.right.size(),
                .right = pair % p.right.size()};
  };

  const auto load = [&](const Turn& s) {
    stage(core, a.acquire(), p.left[s.left], s.row, s.rows, s.first + s.k, s.depth);
    a.commit();
    stage(core, b.acquire(), p.right[s.right], s.column, s.columns, s.first + s.k, s.depth);
    b.commit();
  };

  Tensor sum;
  const auto product = [&](const Turn& s) {
    const bool first = s.k == 0, last = s.k + s.depth == p.segment;
    const Tensor staged_a = a.wait(), staged_b = b.wait();
    for (index r = 0; r < s.rows; r += t.sum_m)
      for (index c = 0; c < s.columns; c += t.sum_n) {
        const index m = std::min(t.sum_m, s.rows - r), n = std::min(t.sum_n, s.columns - c);
        if (first) sum = sums.acquire().slice(0, m, 0, n);
        for (index k = 0; k < s.depth; k += t.feed_k) {
          const index ks = std::min(t.feed_k, s.depth - k);
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
        out.pass(sums, m, n, {{}, s.row + r, s.column + c, 0, s.step, s.step + 1 == p.steps()}, consume);
      }
    a.release();
    b.release();
  };

  if (turns > 0) load(turn_at(0));
  for (index turn = 0; turn < turns; ++turn) {
    if (turn + 1 < turns) load(turn_at(turn + 1));
    product(turn_at(turn));
  }
}

}  // namespace inlay::npu
