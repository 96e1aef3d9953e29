#include "npu_kernels/attention/decode_attention.hpp"

#include <algorithm>
#include <vector>

#include "npu_kernels/attention/decode_results.hpp"
#include "npu_kernels/attention/decode_tiles.hpp"
#include "npu_kernels/attention/decode_vector.hpp"
#include "npu_kernels/attention/handover.hpp"
#include "npu_kernels/attention/merge_splits.hpp"
#include "npu_kernels/attention/online_softmax.hpp"

namespace inlay::npu {

namespace {

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
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {mine_.count, 1}, DType::f32); }
  static std::size_t slot_of(index i) { return static_cast<std::size_t>(i % probabilities_ahead); }

  Core& core_;
  const DecodeOperands& op_;
  const DecodeTiles t_;
  const index rows_, dim_;
  const RowRange mine_;  // of vec1 and vec2
  const Chain chain_;    // .. whose verbs wait for one another

  Ring staged_q_, staged_k_, staged_v_, left_, right_, sums_;
  ToVector scores_, products_;
  ToLeft probabilities_;
  DecodeResults results_;
  OnlineSoftmax softmax_;

  Tensor query_, sum_;
  // What vec1 leaves for vec2, which is two tiles behind: of each tile the rescale, of its item the ends.
  std::vector<Tensor> rescale_, end_total_, end_maximum_;
};

Stages::Stages(Core& core, const DecodeOperands& op)
    : core_(core),
      op_(op),
      t_(decode_tiles(core.device(), op)),
      rows_(op.group()),
      dim_(op.dim()),
      mine_(my_rows(core, rows_)),
      chain_(core.chain(Pipe::vector)),
      staged_q_(core.ring("q", Space::staging, {rows_, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      staged_k_(core.ring("k", Space::staging, {t_.tokens, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      staged_v_(core.ring("v", Space::staging, {t_.tokens, dim_}, op.q.dtype, {2, Pipe::load, Pipe::feed}, Layout::nz)),
      left_(core.ring("left", Space::left, {rows_, std::max(dim_, t_.product_depth)}, op.q.dtype,
                      {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      right_(core.ring("right", Space::right, {std::max(dim_, t_.product_depth), std::max(t_.score_columns, dim_)},
                       op.q.dtype, {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      sums_(core.ring("sums", Space::accumulator, {rows_, std::max(t_.score_columns, dim_)}, DType::f32,
                      {2, Pipe::matrix, Pipe::drain})),
      scores_(core, "scores", {rows_, t_.tokens}, mine_, op.scores),
      products_(core, "products", {rows_, dim_}, mine_, op.products),
      probabilities_(core, probabilities_ahead, {rows_, t_.tokens}, mine_, op.q.dtype, op.probabilities),
      results_(core, op, mine_),
      softmax_(core, mine_.count) {
  sum_ = core.alloc("sum", Space::vector, {mine_.count, dim_}, DType::f32);
  for (index i = 0; i < probabilities_ahead; ++i) {
    rescale_.push_back(column("rescale"));
    end_total_.push_back(column("total of an item"));
    end_maximum_.push_back(column("maximum of an item"));
  }
}

void Stages::run() {
  const std::vector<TokenTile> tiles = token_tiles(op_, {core_.block_idx(), core_.block_dim()}, t_.tokens);
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
    core_.mma(sums_.acquire().slice(0, rows_, 0, n), q, right_.wait().slice(0, dim_, 0, n), true);
    right_.release();
    sums_.commit();
    core_.drain(to.slice(0, rows_, c, n), sums_.wait().slice(0, rows_, 0, n));
    sums_.release();
  }
  left_.release();
  staged_k_.release();
  if (tile.last) staged_q_.release();
  scores_.commit(tile.tokens);
}

void Stages::vec1(const TokenTile& tile, index i) {
  const Tensor s = scores_.wait().slice(0, mine_.count, 0, tile.tokens), alpha = rescale_[slot_of(i)];
  if (tile.first) softmax_.begin();
  softmax_.tile(s, alpha, op_.scale);
  core_.vcast(probabilities_.acquire().slice(0, mine_.count, 0, tile.tokens), s);
  probabilities_.commit(tile.tokens);
  scores_.release();
  if (!tile.last) return;
  core_.vcast(end_total_[slot_of(i)], softmax_.total());
  core_.vcast(end_maximum_[slot_of(i)], softmax_.maximum());
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
    core_.mma(acc, left_.wait().slice(0, rows_, 0, depth), right_.wait().slice(0, depth, 0, dim_), k == 0);
    left_.release();
    right_.release();
  }
  probabilities_.release();
  staged_v_.release();
  sums_.commit();
  core_.drain(products_.acquire(), sums_.wait().slice(0, rows_, 0, dim_));
  sums_.release();
  products_.commit(dim_);
}

void Stages::vec2(const TokenTile& tile, index i) {
  const Tensor product = products_.wait();
  if (tile.first) {
    core_.vcast(sum_, product);
  } else {
    core_.vbinary(VectorOp::mul, sum_, sum_, rescale_[slot_of(i)]);
    core_.vbinary(VectorOp::add, sum_, sum_, product);
  }
  products_.release();
  if (tile.last) results_.store(tile, sum_, end_total_[slot_of(i)], end_maximum_[slot_of(i)]);
}

}  // namespace

std::string_view name(DecodePlan plan) {
  constexpr std::string_view table[] = {"C1V1", "C1V2", "vector"};
  return table[static_cast<int>(plan)];
}

void add_workspace(GlobalMemory& machine, DecodeOperands& op) {
  const DecodeTiles t = decode_tiles(machine.device(), op);
  const index rows = op.group(), dim = op.dim(), items = op.items() * rows;
  const index in_flight = static_cast<index>(machine.cores()) * rows;
  op.sums = machine.workspace("partial sums", {items, dim}, DType::f32);
  op.maxima = machine.workspace("partial maxima", {items, 1}, DType::f32);
  op.totals = machine.workspace("partial totals", {items, 1}, DType::f32);
  if (op.plan == DecodePlan::vector) return;
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
  if (op.plan == DecodePlan::vector)
    decode_on_vectors(core, op);
  else
    Stages(core, op).run();  // its rings end before the cores meet
  if (op.splits > 1) merge_splits(core, op);
}

}  // namespace inlay::npu
