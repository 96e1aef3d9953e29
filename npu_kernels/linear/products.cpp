#include "npu_kernels/linear/products.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "npu_kernels/backend/row_partition.hpp"
#include "npu_kernels/linear/tile_schedule.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

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

std::uint32_t rows_on_their_way(const Device& device) { return drains_to_vector(device) ? 3 : 2; }

// Finished sums on their way from the accumulator to the vector unit: drained into its memory where the device has
// such a path, else through a workspace in global memory, where each vector stream of the core takes its rows.
//
//   drain   | tile |  --->  vector | rows | rows | ..          or    drain --> global --load_vector--> vector
class SumsToVector {
 public:
  SumsToVector(Core& core, const ProductTiles& tiles, DType dtype, const Tensor& workspace)
      : core_(core),
        rows_(tiles.vector_m),
        unit_(tiles.row_unit),
        direct_(drains_to_vector(core.device())),
        tiles_(core.ring("rows of sums", Space::vector, {tiles.vector_m, tiles.sum_n}, dtype,
                         {rows_on_their_way(core.device()), direct_ ? Pipe::drain : Pipe::load_vector, Pipe::vector})) {
    if (direct_) return;
    through_.emplace(workspace_ring(core, "sums in global memory", workspace, tiles.sum_m, tiles.handed, Pipe::drain,
                                    Pipe::load_vector));
  }
  // The tile of m x n sums that `sums` has committed goes to the consumer, a few rows after the others.
  void pass(Ring& sums, index m, index n, const Sums& where, const Consumer& consume) {
    const Tensor sum = sums.wait().slice(0, m, 0, n);
    Tensor passed;
    if (!direct_) {
      core_.drain(through_->acquire().slice(0, m, 0, n), sum);
      through_->commit();
      passed = through_->wait();
    }
    const RowRange units = my_rows(core_, m / unit_), mine{units.first * unit_, units.count * unit_};
    for (index at = 0; at < mine.count; at += rows_) {
      const index count = std::min(rows_, mine.count - at), row = mine.first + at;
      const Tensor to = tiles_.acquire().slice(0, count, 0, n);
      if (direct_)
        core_.drain(to, sum.slice(row, count, 0, n));
      else
        core_.copy(to, passed.slice(row, count, 0, n));
      tiles_.commit();
      Sums here = where;
      here.tile = to;
      here.row += row;
      here.at += at;
      drained_.push_back(here);
      while (drained_.size() > (direct_ ? 1 : 0)) consume_oldest(consume);
    }
    sums.release();
    if (!direct_) through_->release();
  }
  // What is still on its way goes to the consumer, too.
  void finish(const Consumer& consume) {
    while (!drained_.empty()) consume_oldest(consume);
  }

 private:
  void consume_oldest(const Consumer& consume) {
    Sums sums = drained_.front();
    drained_.pop_front();
    sums.tile = tiles_.wait().slice(0, sums.tile.rows(), 0, sums.tile.columns());
    consume(sums);
    tiles_.release();
  }

  Core& core_;
  index rows_, unit_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_;
  std::deque<Sums> drained_;  // one behind: the vector unit has work while the matrix unit makes the next sums
};

}  // namespace

Tensor accumulator_workspace(GlobalMemory& memory, const Products& products, const ProductTiles& tiles) {
  if (drains_to_vector(memory.device())) return {};
  return memory.workspace("sums in global memory", {index{memory.cores()} * tiles.handed * tiles.sum_m, tiles.sum_n},
                          products.sum);
}

index bytes_on_their_way(const Device& device, const ProductTiles& tiles, DType dtype) {
  return rows_on_their_way(device) * tiles.vector_m * tiles.sum_n * byte_size(dtype, 1);
}

void multiply(Core& core, const ProductPlan& plan, const Consumer& consume, const Makers& makers) {
  const Products& p = plan.products;
  const ProductTiles& t = plan.tiles;
  if (p.longest() == 0) {
    if (makers.meet) makers.meet();
    return pass_zeros(core, p, t, consume);
  }
  const TileSchedule turns(core, p, t);
  const DType in = p.left.front().dtype;
  const index depth_of_a = t.keeps ? round_up(p.depth(), core.device().fractal_block(in)) : t.chunk_k;
  Ring a = core.ring("a", Space::staging, {t.block_m, depth_of_a}, in,
                     {t.keeps ? 1 : t.staged, makers.left ? Pipe::vector : Pipe::load, Pipe::feed}, Layout::nz);
  const bool turned = p.right.front().turned;
  const Shape shape_of_b = turned ? Shape{t.chunk_k, t.block_n} : Shape{t.block_n, t.chunk_k};
  Ring b = core.ring("b", Space::staging, shape_of_b, in,
                     {t.staged, makers.right ? Pipe::vector : Pipe::load, Pipe::feed}, Layout::nz);
  Ring left = core.ring("left", Space::left, {t.sum_m, t.feed_k}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring right = core.ring("right", Space::right, {t.feed_k, t.sum_n}, in, {2, Pipe::feed, Pipe::matrix}, Layout::nz);
  Ring sums = core.ring("sums", Space::accumulator, {t.sum_m, t.sum_n}, p.sum,
                        {t.accumulators, Pipe::matrix, Pipe::drain, t.unit});
  SumsToVector out(core, t, p.sum, plan.accumulator);

  // The columns of an item are stored chunk by chunk with its first rows; the next item's with its last ones.
  const index depth_of_b = p.right.front().depth;
  std::optional<StoredChunks> stored;
  if (makers.store_right) stored.emplace(core, p.right.front(), ceil_div(depth_of_b, std::max<index>(1, t.stored_k)));
  const auto store = [&](index item) {
    const ScheduledTile s = turns.at(item * turns.of_item());
    const index k = stored->next() * t.stored_k;
    stored->store([&] { makers.store_right(s.column, s.columns, k, std::min(t.stored_k, depth_of_b - k)); });
  };
  const auto store_for = [&](index turn) {
    const index item = turn / turns.of_item(), block = turn % turns.of_item() / turns.of_block();
    const Slice slice = turns.at(turn).slice;
    const index chunks = ceil_div(slice.k + slice.depth, t.stored_k);
    if (block == 0)
      for (; stored->arrived(item) < chunks; stored->wait())
        if (stored->made(item) <= stored->arrived(item)) store(item);
    if (block == 0 && !stored->full() && stored->made(item) < std::min(chunks + 1, stored->of_item())) store(item);
    if (block > 0 && block + 1 == turns.blocks_of_item() && (item + 1) * turns.of_item() < turns.count())
      while (!stored->full() && stored->made(item + 1) < chunks) store(item + 1);
  };
  const auto load_left = [&](index turn) {
    const ScheduledTile s = turns.at(turn);
    if (t.keeps && turns.new_rows(turn)) {
      if (makers.left)
        makers.left(a.acquire());
      else
        stage(core, a.acquire(), p.left.front(), s.row, s.rows, p.first(), p.depth());
      a.commit();
    } else if (!t.keeps) {
      stage(core, a.acquire(), p.left[s.slice.left], s.row, s.rows, s.slice.k, s.slice.depth);
      a.commit();
    }
  };
  const auto load_right = [&](index turn) {
    const ScheduledTile s = turns.at(turn);
    if (makers.store_right) store_for(turn);
    if (makers.right)
      makers.right(b.acquire(), s.column, s.columns, s.slice.k, s.slice.depth);
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
    const ScheduledTile s = turns.at(turn);
    const bool first = s.slice.first, last = s.slice.last;
    if (!t.keeps || turns.new_rows(turn)) staged_a = a.wait();
    const index k_of_a = t.keeps ? s.slice.k - p.first() : 0;
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
    if (!t.keeps || turn + 1 == turns.count() || turns.new_rows(turn + 1)) a.release();
    b.release();
  };

  // Rows that stay have one place: the next ones come once the last product of these is on its way. What the vector
  // unit makes fills its queue: it comes behind the first product that it is not needed for.
  const index ahead = index{t.staged} - 1;
  index loaded = 0, loaded_right = 0;
  const auto load_until = [&](index end, index turn) {
    for (; loaded < std::min(turns.count(), end) && !(t.keeps && loaded > turn && turns.new_rows(loaded)); ++loaded) {
      load_left(loaded);
      for (; loaded_right <= loaded; ++loaded_right) load_right(loaded_right);
    }
  };
  if (makers.meet) {
    if (makers.store_right && turns.count() > 0) store(0);
    if (t.early)
      for (; loaded_right < std::min(turns.count(), index{t.staged}); ++loaded_right) load_right(loaded_right);
    makers.meet();
  }
  for (index turn = 0; turn < turns.count(); ++turn) {
    load_until(turn + 1 + (makers.right ? 0 : ahead), turn);
    product(turn, [&] { load_until(turn + 1 + ahead, turn); });
  }
  pass();
  out.finish(consume);
}

}  // namespace inlay::npu
