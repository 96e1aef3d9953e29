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

// What is staged at once for a block: a chunk of a segment, of one pair of parts.
struct Slice {
  index step, k, depth;
  std::size_t left, right;
  bool first, last;  // of its sums
};

std::vector<Slice> slices_of(const Products& p, const ProductTiles& t) {
  std::vector<Slice> slices;
  index step = 0;
  for (const Segment& segment : p.segments)
    for (std::size_t left = 0; left < p.left.size(); ++left)
      for (std::size_t right = 0; right < p.right.size(); ++right, ++step)
        for (index k = 0; k < segment.depth; k += t.chunk_k) {
          const index depth = std::min(t.chunk_k, segment.depth - k);
          slices.push_back({step, segment.first + k, depth, left, right, k == 0, k + depth == segment.depth});
        }
  return slices;
}

}  // namespace

void multiply(Core& core, const Products& p, const ProductTiles& t, const Tensor& handover, const Consumer& consume,
              const MakeRight& make_right, const MakeLeft& make_left) {
  if (p.longest() == 0) return pass_zeros(core, p, t, consume);
  const std::vector<Slice> slices = slices_of(p, t);
  const auto of_block = static_cast<index>(slices.size());
  const index rows = p.rows(), columns = p.columns();
  // Cores side by side take the same part of the longer operand: it comes from global memory over the whole run, and
  // not all of it at its start.
  const index blocks_m = ceil_div(rows, t.block_m), blocks_n = ceil_div(columns, t.block_n),
              blocks = blocks_m * blocks_n;
  const DType in = p.left.front().dtype;
  const index depth_of_a = t.keeps ? round_up(p.left.front().depth, core.device().fractal_block(in)) : t.chunk_k;
  Ring a = core.ring("a", Space::staging, {t.block_m, depth_of_a}, in,
                     {t.keeps ? 1 : t.staged, make_left ? Pipe::vector : Pipe::load, Pipe::feed}, Layout::nz);
  const bool turned = p.right.front().turned;
  const Shape shape_of_b = turned ? Shape{t.chunk_k, t.block_n} : Shape{t.block_n, t.chunk_k};
  Ring b = core.ring("b", Space::staging, shape_of_b, in,
                     {t.staged, make_right ? Pipe::vector : Pipe::load, Pipe::feed}, Layout::nz);
  Ring left = core.ring("left", Space::left, {t.sum_m, t.feed_k}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring right = core.ring("right", Space::right, {t.feed_k, t.sum_n}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring sums = core.ring("sums", Space::accumulator, {t.sum_m, t.sum_n}, p.sum,
                        {t.unit ? 1u : 2u, Pipe::matrix, Pipe::drain, t.unit});
  SumsToVector out(core, t, p.sum, handover);

  const bool down = columns >= rows;
  const index me = core.block_idx(), cores = core.block_dim();
  const index turns = me < blocks ? ceil_div(blocks - me, cores) * of_block : 0;

  struct Turn {
    index row, rows, column, columns;
    Slice slice;
  };
  const auto turn_at = [&](index turn) {
    const index block = me + turn / of_block * cores;
    const index row = (down ? block % blocks_m : block / blocks_n) * t.block_m;
    const index column = (down ? block / blocks_m : block % blocks_n) * t.block_n;
    return Turn{row, std::min(t.block_m, rows - row), column, std::min(t.block_n, columns - column),
                slices[static_cast<std::size_t>(turn % of_block)]};
  };

  const auto load = [&](index turn) {
    const Turn s = turn_at(turn);
    if (t.keeps && turn == 0) {
      if (make_left)
        make_left(a.acquire());
      else
        stage(core, a.acquire(), p.left.front(), 0, rows, 0, p.left.front().depth);
      a.commit();
    } else if (!t.keeps) {
      stage(core, a.acquire(), p.left[s.slice.left], s.row, s.rows, s.slice.k, s.slice.depth);
      a.commit();
    }
    if (make_right)
      make_right(b.acquire(), s.column, s.columns, s.slice.k, s.slice.depth);
    else
      stage(core, b.acquire(), p.right[s.slice.right], s.column, s.columns, s.slice.k, s.slice.depth);
    b.commit();
  };

  const index kept = rows_of_vector(core, t);
  Tensor sum, staged_a;
  const auto product = [&](index turn) {
    const Turn s = turn_at(turn);
    const bool first = s.slice.first, last = s.slice.last;
    if (!t.keeps || turn == 0) staged_a = a.wait();
    const index k_of_a = t.keeps ? s.slice.k : 0;
    const Tensor staged_b = b.wait();
    for (index r = 0; r < s.rows; r += t.sum_m)
      for (index c = 0; c < s.columns; c += t.sum_n) {
        const index m = std::min(t.sum_m, s.rows - r), n = std::min(t.sum_n, s.columns - c);
        if (first) sum = sums.acquire().slice(0, m, 0, n);
        for (index k = 0; k < s.slice.depth; k += t.feed_k) {
          const index ks = std::min(t.feed_k, s.slice.depth - k);
          core.load_a(left.acquire().slice(0, m, 0, ks), staged_a.slice(r, m, k_of_a + k, ks));
          left.commit();
          core.load_b(right.acquire().slice(0, ks, 0, n),
                      turned ? staged_b.slice(k, ks, c, n) : staged_b.slice(c, n, k, ks), !turned);
          right.commit();
          core.mma(sum, left.wait().slice(0, m, 0, ks), right.wait().slice(0, ks, 0, n), first && k == 0);
          left.release();
          right.release();
        }
        if (!last) continue;
        sums.commit();
        out.pass(sums, m, n,
                 {{}, s.row + r, s.column + c, r / t.sum_m * kept, s.slice.step, s.slice.step + 1 == p.steps()},
                 consume);
      }
    if (!t.keeps || turn + 1 == turns) a.release();
    b.release();
  };

  const index ahead = index{t.staged} - 1;
  for (index turn = 0; turn < std::min(ahead, turns); ++turn) load(turn);
  for (index turn = 0; turn < turns; ++turn) {
    if (turn + ahead < turns) load(turn + ahead);
    product(turn);
  }
  out.finish(consume);
}

}  // namespace inlay::npu
