#include "npu_kernels/attention/decode_attention.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/attention/decode_tiles.hpp"
#include "npu_kernels/attention/handover.hpp"
#include "npu_kernels/attention/merge_splits.hpp"
#include "npu_kernels/machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Tokens of an item, with all query rows of its head.
struct TokenTile {
  index item, cache_row, query_row, tokens;
  bool first, last;  // of its item
};

// Those of one core in order. Items differ in length by the rounding of the splits.
std::vector<TokenTile> tiles_of(const Core& core, const DecodeOperands& op, index tokens) {
  std::vector<TokenTile> tiles;
  const index range = ceil_div(op.length, op.splits);
  for (index item = core.block_idx(); item < op.items(); item += core.block_dim()) {
    const index cache = item / op.splits, begin = item % op.splits * range, end = std::min(op.length, begin + range);
    for (index token = begin; token < end; token += tokens)
      tiles.push_back({item, cache * op.length + token, cache * op.group(), std::min(tokens, end - token),
                       token == begin, token + tokens >= end});
  }
  return tiles;
}

// The four stages on one core, and what passes between them.
class Stages {
 public:
  Stages(Core& core, const DecodeOperands& op);
  void run();

 private:
  void load_k(const TokenTile& tile);
  void load_v(const TokenTile& tile);
  void mm1(const TokenTile& tile);
  void vec1(const TokenTile& tile, index i);
  void mm2(const TokenTile& tile);
  void vec2(const TokenTile& tile, index i);
  void store_item(const TokenTile& tile, std::size_t slot);
  void store_statistic(Ring& ring, const Tensor& of_item, const Tensor& all, const TokenTile& tile);
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {rows_, 1}, DType::f32); }
  static std::size_t slot_of(index i) { return static_cast<std::size_t>(i % probabilities_ahead); }

  Core& core_;
  const DecodeOperands& op_;
  const DecodeTiles t_;
  const index rows_, dim_;

  Ring staged_q_, staged_k_, staged_v_, left_, right_, sums_;
  ToVector scores_, products_;
  ToLeft probabilities_;
  Ring result_;
  std::optional<Ring> totals_, maxima_;  // of an item that is one of several splits

  Tensor query_, maximum_, total_, fresh_maximum_, tile_maximum_, tile_total_, sum_;
  // What vec1 leaves for vec2, which is two tiles behind: of each tile the rescale, of its item the ends.
  std::vector<Tensor> rescale_, end_total_, end_maximum_;
};

Stages::Stages(Core& core, const DecodeOperands& op)
    : core_(core),
      op_(op),
      t_(decode_tiles(core.device(), op)),
      rows_(op.group()),
      dim_(op.dim()),
      staged_q_(core.ring("q", Space::staging, {rows_, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      staged_k_(core.ring("k", Space::staging, {t_.tokens, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      staged_v_(core.ring("v", Space::staging, {t_.tokens, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      left_(core.ring("left", Space::left, {rows_, std::max(dim_, t_.product_depth)}, op.q.dtype,
                      {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      right_(core.ring("right", Space::right, {std::max(dim_, t_.product_depth), std::max(t_.score_columns, dim_)},
                       op.q.dtype, {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      sums_(core.ring("sums", Space::accumulator, {rows_, std::max(t_.score_columns, dim_)}, DType::f32,
                      {2, Pipe::matrix, Pipe::drain})),
      scores_(core, "scores", {rows_, t_.tokens}, op.scores),
      products_(core, "products", {rows_, dim_}, op.products),
      probabilities_(core, probabilities_ahead, {rows_, t_.tokens}, op.q.dtype, op.probabilities),
      result_(core.ring("result", Space::vector, {rows_, dim_}, op.splits == 1 ? op.out.dtype : DType::f32,
                        {1, Pipe::vector, Pipe::store})) {
  if (op.splits > 1) {
    totals_.emplace(core.ring("totals", Space::vector, {rows_, 1}, DType::f32, {1, Pipe::vector, Pipe::store}));
    maxima_.emplace(core.ring("maxima", Space::vector, {rows_, 1}, DType::f32, {1, Pipe::vector, Pipe::store}));
  }
  maximum_ = column("maximum");
  total_ = column("total");
  fresh_maximum_ = column("fresh maximum");
  tile_maximum_ = column("maximum of a tile");
  tile_total_ = column("total of a tile");
  sum_ = core.alloc("sum", Space::vector, {rows_, dim_}, DType::f32);
  for (index i = 0; i < probabilities_ahead; ++i) {
    rescale_.push_back(column("rescale"));
    end_total_.push_back(column("total of an item"));
    end_maximum_.push_back(column("maximum of an item"));
  }
}

void Stages::run() {
  const std::vector<TokenTile> tiles = tiles_of(core_, op_, t_.tokens);
  const auto count = static_cast<index>(tiles.size());
  const auto has = [&](index i) { return i >= 0 && i < count; };
  const auto tile = [&](index i) -> const TokenTile& { return tiles[static_cast<std::size_t>(i)]; };
  for (index i = 0; i < count + 3; ++i) {
    if (has(i)) load_k(tile(i));
    if (has(i - 2)) load_v(tile(i - 2));
    if (has(i - 1)) mm1(tile(i - 1));
    if (has(i - 1)) vec1(tile(i - 1), i - 1);
    if (has(i - 3)) mm2(tile(i - 3));
    if (has(i - 3)) vec2(tile(i - 3), i - 3);
  }
}

void Stages::load_k(const TokenTile& tile) {
  if (tile.first) {
    core_.nd2nz(staged_q_.acquire(), op_.q.row_slice(tile.query_row, rows_));
    staged_q_.commit();
  }
  core_.nd2nz(staged_k_.acquire().row_slice(0, tile.tokens), op_.k.row_slice(tile.cache_row, tile.tokens));
  staged_k_.commit();
}

void Stages::load_v(const TokenTile& tile) {
  core_.nd2nz(staged_v_.acquire().row_slice(0, tile.tokens), op_.v.row_slice(tile.cache_row, tile.tokens));
  staged_v_.commit();
}

void Stages::mm1(const TokenTile& tile) {
  if (tile.first) query_ = staged_q_.wait();
  const Tensor k = staged_k_.wait(), to = scores_.acquire();
  core_.load_a(left_.acquire().slice(0, rows_, 0, dim_), query_);
  left_.commit();
  const Tensor q = left_.wait().slice(0, rows_, 0, dim_);
  for (index c = 0; c < tile.tokens; c += t_.score_columns) {
    const index n = std::min(t_.score_columns, tile.tokens - c);
    core_.load_b(right_.acquire().slice(0, dim_, 0, n), k.row_slice(c, n), true);
    right_.commit();
    const Tensor keys = right_.wait(), sum = sums_.acquire();  // arguments have no order of their own
    core_.mma(sum.slice(0, rows_, 0, n), q, keys.slice(0, dim_, 0, n), true);
    right_.release();
    sums_.commit();
    core_.drain(to.slice(0, rows_, c, n), sums_.wait().slice(0, rows_, 0, n));
    sums_.release();
  }
  left_.release();
  staged_k_.release();
  if (tile.last) staged_q_.release();
  scores_.commit(rows_, tile.tokens);
}

void Stages::vec1(const TokenTile& tile, index i) {
  const Tensor s = scores_.wait().slice(0, rows_, 0, tile.tokens), alpha = rescale_[slot_of(i)];
  if (tile.first) {
    core_.vfill(maximum_, -std::numeric_limits<float>::infinity());
    core_.vfill(total_, 0);
  }
  core_.vscalar(VectorOp::mul, s, s, op_.scale);
  core_.barrier(Pipe::vector);
  core_.vreduce(VectorOp::reduce_max, tile_maximum_, s);
  core_.barrier(Pipe::vector);
  core_.vbinary(VectorOp::max, fresh_maximum_, maximum_, tile_maximum_);
  core_.barrier(Pipe::vector);
  core_.vbinary(VectorOp::sub, alpha, maximum_, fresh_maximum_);
  core_.vbinary(VectorOp::sub, s, s, fresh_maximum_);
  core_.barrier(Pipe::vector);
  core_.vcast(maximum_, fresh_maximum_);
  core_.vunary(VectorOp::exp, alpha, alpha);
  core_.vunary(VectorOp::exp, s, s);
  core_.barrier(Pipe::vector);
  core_.vbinary(VectorOp::mul, total_, total_, alpha);
  core_.vreduce(VectorOp::reduce_sum, tile_total_, s);
  core_.vcast(probabilities_.acquire().slice(0, rows_, 0, tile.tokens), s);
  probabilities_.commit(rows_, tile.tokens);
  scores_.release();
  core_.barrier(Pipe::vector);
  core_.vbinary(VectorOp::add, total_, total_, tile_total_);
  core_.barrier(Pipe::vector);
  if (!tile.last) return;
  core_.vcast(end_total_[slot_of(i)], total_);
  core_.vcast(end_maximum_[slot_of(i)], maximum_);
  core_.barrier(Pipe::vector);
}

void Stages::mm2(const TokenTile& tile) {
  const Tensor p = probabilities_.wait(rows_, tile.tokens), v = staged_v_.wait();
  const Tensor acc = sums_.acquire().slice(0, rows_, 0, dim_);
  for (index k = 0; k < tile.tokens; k += t_.product_depth) {
    const index depth = std::min(t_.product_depth, tile.tokens - k);
    core_.load_a(left_.acquire().slice(0, rows_, 0, depth), p.slice(0, rows_, k, depth));
    left_.commit();
    core_.load_b(right_.acquire().slice(0, depth, 0, dim_), v.row_slice(k, depth));
    right_.commit();
    const Tensor y = right_.wait(), x = left_.wait();
    core_.mma(acc, x.slice(0, rows_, 0, depth), y.slice(0, depth, 0, dim_), k == 0);
    left_.release();
    right_.release();
  }
  probabilities_.release();
  staged_v_.release();
  sums_.commit();
  const Tensor product = sums_.wait(), to = products_.acquire();
  core_.drain(to, product.slice(0, rows_, 0, dim_));
  sums_.release();
  products_.commit(rows_, dim_);
}

void Stages::vec2(const TokenTile& tile, index i) {
  const Tensor product = products_.wait();
  if (tile.first) {
    core_.vcast(sum_, product);
  } else {
    core_.vbinary(VectorOp::mul, sum_, sum_, rescale_[slot_of(i)]);
    core_.barrier(Pipe::vector);
    core_.vbinary(VectorOp::add, sum_, sum_, product);
  }
  products_.release();
  core_.barrier(Pipe::vector);
  if (tile.last) store_item(tile, slot_of(i));
}

void Stages::store_item(const TokenTile& tile, std::size_t slot) {
  if (op_.splits == 1) {
    core_.vbinary(VectorOp::div, sum_, sum_, end_total_[slot]);
    core_.barrier(Pipe::vector);
  }
  core_.vcast(result_.acquire(), sum_);
  result_.commit();
  core_.barrier(Pipe::vector);
  const Tensor to =
      op_.splits == 1 ? op_.out.row_slice(tile.query_row, rows_) : op_.sums.row_slice(tile.item * rows_, rows_);
  core_.copy(to, result_.wait());
  if (op_.splits > 1) {
    store_statistic(*totals_, end_total_[slot], op_.totals, tile);
    store_statistic(*maxima_, end_maximum_[slot], op_.maxima, tile);
    core_.barrier(Pipe::vector);
  }
  result_.release();
}

void Stages::store_statistic(Ring& ring, const Tensor& of_item, const Tensor& all, const TokenTile& tile) {
  core_.vcast(ring.acquire(), of_item);
  ring.commit();
  core_.copy(all.row_slice(tile.item * rows_, rows_), ring.wait());
  ring.release();
}

}  // namespace

void add_workspace(GlobalMemory& machine, DecodeOperands& op) {
  const DecodeTiles t = decode_tiles(machine.device(), op);
  const index rows = op.group(), dim = op.dim(), items = op.items() * rows;
  const index in_flight = static_cast<index>(machine.cores()) * rows;
  op.sums = machine.workspace("partial sums", {items, dim}, DType::f32);
  op.maxima = machine.workspace("partial maxima", {items, 1}, DType::f32);
  op.totals = machine.workspace("partial totals", {items, 1}, DType::f32);
  op.scores = machine.workspace("scores", {in_flight * 2, t.tokens}, DType::f32);
  op.probabilities = machine.workspace("probabilities", {in_flight * probabilities_ahead, t.tokens}, op.q.dtype);
  op.products = machine.workspace("products", {in_flight * 2, dim}, DType::f32);
}

Problem decode_problem(const DecodeOperands& op) {
  const index cache = 2 * op.sequences * op.cache_heads * op.length, rows = op.sequences * op.heads;
  const index bytes = (cache + rows) * byte_size(op.q.dtype, op.dim()) + rows * byte_size(op.out.dtype, op.dim());
  const index operations = 2 * 2 * rows * op.length * op.dim();
  return {static_cast<std::uint64_t>(bytes), {{op.q.dtype, DType::f32, static_cast<std::uint64_t>(operations)}}};
}

void decode_attention(Core& core, const DecodeOperands& op) {
  Stages(core, op).run();  // its rings end before the cores meet
  if (op.splits > 1) merge_splits(core, op);
}

}  // namespace inlay::npu
