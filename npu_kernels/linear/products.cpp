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

// Flags for what a core's vector units store of its columns, item after item in chunks: no tiles of their own.
class StoredChunks {
 public:
  StoredChunks(Core& core, const Operand& to, index of_item)
      : of_item_(of_item),
        flags_(core.ring("stored", std::vector<Tensor>(ahead, to.blocks.first), Pipe::store, Pipe::load)) {}
  index of_item() const { return of_item_; }
  index next() const { return made_ % of_item_; }
  index made(index item) const { return made_ - item * of_item_; }
  index arrived(index item) const { return arrived_ - item * of_item_; }
  bool full() const { return made_ - arrived_ == ahead; }
  template <class Store> void store(Store&& chunk) {
    flags_.acquire();
    chunk();
    flags_.commit();
    ++made_;
  }
  void wait() {
    flags_.wait();
    flags_.release();
    ++arrived_;
  }

 private:
  static constexpr index ahead = 8;
  index of_item_, made_ = 0, arrived_ = 0;
  Ring flags_;
};

}  // namespace

void multiply(Core& core, const Products& p, const ProductTiles& t, const Tensor& handover, const Consumer& consume,
              const MakeRight& make_right, const MakeLeft& make_left, const StoreRight& store_right) {
  if (p.longest() == 0) return pass_zeros(core, p, t, consume);
  const std::vector<Slice> slices = slices_of(p, t);
  const auto of_block = static_cast<index>(slices.size());
  const index rows = p.rows(), columns = p.columns();
  // Cores side by side take the same part of the longer operand: it comes from global memory over the whole run, and
  // not all of it at its start. Rows that stay are worked through before the next ones.
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
                        {t.accumulators, Pipe::matrix, Pipe::drain, t.unit});
  SumsToVector out(core, t, p.sum, handover);

  const bool down = t.own || (columns >= rows && !t.keeps);
  const index me = core.block_idx(), cores = core.block_dim();
  const index items = t.own ? blocks_n : blocks, blocks_of_item = t.own ? blocks_m : 1;
  const index turns = me < items ? ceil_div(items - me, cores) * blocks_of_item * of_block : 0;

  struct Turn {
    index row, rows, column, columns;
    Slice slice;
  };
  const auto turn_at = [&](index turn) {
    const index done = turn / of_block,
                block = t.own ? done % blocks_m + (me + done / blocks_m * cores) * blocks_m : me + done * cores;
    const index row = (down ? block % blocks_m : block / blocks_n) * t.block_m;
    const index column = (down ? block / blocks_m : block % blocks_n) * t.block_n;
    return Turn{row, std::min(t.block_m, rows - row), column, std::min(t.block_n, columns - column),
                slices[static_cast<std::size_t>(turn % of_block)]};
  };

  // The columns of an item are stored chunk by chunk with its first rows; the next item's with its last ones.
  const index of_item = blocks_of_item * of_block, depth_of_b = p.right.front().depth;
  std::optional<StoredChunks> stored;
  if (store_right.store) stored.emplace(core, p.right.front(), ceil_div(depth_of_b, std::max<index>(1, t.stored_k)));
  const auto store = [&](index item) {
    const Turn s = turn_at(item * of_item);
    const index k = stored->next() * t.stored_k;
    stored->store([&] { store_right.store(s.column, s.columns, k, std::min(t.stored_k, depth_of_b - k)); });
  };
  const auto store_for = [&](index turn) {
    const index item = turn / of_item, block = turn % of_item / of_block;
    const Segment k{turn_at(turn).slice.k, turn_at(turn).slice.depth};
    const index chunks = ceil_div(k.first + k.depth, t.stored_k);
    if (block == 0)
      for (; stored->arrived(item) < chunks; stored->wait())
        if (stored->made(item) <= stored->arrived(item)) store(item);
    if (block == 0 && !stored->full() && stored->made(item) < std::min(chunks + 1, stored->of_item())) store(item);
    if (block > 0 && block + 1 == blocks_of_item && (item + 1) * of_item < turns)
      while (!stored->full() && stored->made(item + 1) < chunks) store(item + 1);
  };
  if (store_right.store) {
    if (turns > 0) store(0);
    store_right.meet();
  }

  const auto new_rows = [&](index turn) { return turn == 0 || turn_at(turn).row != turn_at(turn - 1).row; };
  const auto load = [&](index turn) {
    const Turn s = turn_at(turn);
    if (t.keeps && new_rows(turn)) {
      if (make_left)
        make_left(a.acquire());
      else
        stage(core, a.acquire(), p.left.front(), s.row, s.rows, 0, p.left.front().depth);
      a.commit();
    } else if (!t.keeps) {
      stage(core, a.acquire(), p.left[s.slice.left], s.row, s.rows, s.slice.k, s.slice.depth);
      a.commit();
    }
    if (store_right.store) store_for(turn);
    if (make_right)
      make_right(b.acquire(), s.column, s.columns, s.slice.k, s.slice.depth);
    else
      stage(core, b.acquire(), p.right[s.slice.right], s.column, s.columns, s.slice.k, s.slice.depth);
    b.commit();
  };

  const index kept = rows_of_vector(core.vector_dim(), t);
  // With a second accumulator a tile is passed on once the next products are on their way.
  struct Done {
    index m, n;
    Sums where;
  };
  std::optional<Done> done;
  const auto pass = [&] {
    if (done) out.pass(sums, done->m, done->n, done->where, consume);
    done.reset();
  };
  Tensor sum, staged_a;
  const auto product = [&](index turn, auto&& load_next) {
    const Turn s = turn_at(turn);
    const bool first = s.slice.first, last = s.slice.last;
    if (!t.keeps || new_rows(turn)) staged_a = a.wait();
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
        if (r == 0 && c == 0) load_next();
        pass();
        if (!last) continue;
        sums.commit();
        done = {m, n, {{}, s.row + r, s.column + c, r / t.sum_m * kept, s.slice.step, s.slice.step + 1 == p.steps()}};
        if (t.accumulators == 1) pass();
      }
    if (!t.keeps || turn + 1 == turns || new_rows(turn + 1)) a.release();
    b.release();
  };

  // Rows that stay have one place: the next ones come once the last product of these is on its way. What the vector
  // unit makes fills its queue: it comes behind the first product that it is not needed for.
  const index ahead = index{t.staged} - 1;
  index loaded = 0;
  const auto load_until = [&](index end, index turn) {
    for (; loaded < std::min(turns, end) && !(t.keeps && loaded > turn && new_rows(loaded)); ++loaded) load(loaded);
  };
  for (index turn = 0; turn < turns; ++turn) {
    load_until(turn + 1 + (make_right ? 0 : ahead), turn);
    product(turn, [&] { load_until(turn + 1 + ahead, turn); });
  }
  pass();
  out.finish(consume);
}

}  // namespace inlay::npu
