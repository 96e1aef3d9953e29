#include "npu_kernels/attention/decode_vector.hpp"

#include "npu_kernels/attention/decode_results.hpp"
#include "npu_kernels/attention/decode_tiles.hpp"
#include "npu_kernels/attention/online_softmax.hpp"

namespace inlay::npu {

namespace {

class OnVectors {
 public:
  OnVectors(Core& core, const DecodeOperands& op);
  void run();

 private:
  void load(const TokenTile& tile);
  void weigh(const TokenTile& tile);
  void sum_up(const TokenTile& tile);
  Tensor tile_of(const char* name, index rows) {
    return core_.alloc(name, Space::vector, {rows, op_.dim()}, DType::f32);
  }

  Core& core_;
  const DecodeOperands& op_;
  const index rows_, tokens_;
  const Chain chain_;
  Ring q_, k_, v_;
  DecodeResults results_;
  OnlineSoftmax softmax_;
  Tensor query_, wide_, products_, sum_, scores_, rescale_;  // in f32; wide_: K, then V
};

OnVectors::OnVectors(Core& core, const DecodeOperands& op)
    : core_(core),
      op_(op),
      rows_(op.group()),
      tokens_(vector_tile(core.device(), op)),
      chain_(core.chain(Pipe::vector)),
      q_(core.ring("q", Space::vector, {rows_, op.dim()}, op.q.dtype, {2, Pipe::load_vector, Pipe::vector})),
      k_(core.ring("k", Space::vector, {tokens_, op.dim()}, op.k.dtype, {2, Pipe::load_vector, Pipe::vector})),
      v_(core.ring("v", Space::vector, {tokens_, op.dim()}, op.v.dtype, {2, Pipe::load_vector, Pipe::vector})),
      results_(core, op, {0, rows_}),
      softmax_(core, rows_),
      query_(tile_of("query", rows_)),
      wide_(tile_of("k or v in f32", tokens_)),
      products_(tile_of("products", tokens_)),
      sum_(tile_of("sum", rows_)),
      scores_(core.alloc("scores", Space::vector, {rows_, tokens_}, DType::f32)),
      rescale_(core.alloc("rescale", Space::vector, {rows_, 1}, DType::f32)) {}

void OnVectors::run() {
  const auto tiles = token_tiles(op_, {core_.vector_worker(), core_.vector_workers()}, tokens_);
  if (!tiles.empty()) load(tiles.front());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (i + 1 < tiles.size()) load(tiles[i + 1]);
    weigh(tiles[i]);
    sum_up(tiles[i]);
    if (tiles[i].last) results_.store(tiles[i], sum_, softmax_.total(), softmax_.maximum());
  }
}

void OnVectors::load(const TokenTile& tile) {
  if (tile.first) {
    core_.copy(q_.acquire(), op_.q.row_slice(tile.query_row, rows_));
    q_.commit();
  }
  core_.copy(k_.acquire().row_slice(0, tile.tokens), op_.k.row_slice(tile.cache_row, tile.tokens));
  k_.commit();
  core_.copy(v_.acquire().row_slice(0, tile.tokens), op_.v.row_slice(tile.cache_row, tile.tokens));
  v_.commit();
}

// Scores, and of them the weights.
void OnVectors::weigh(const TokenTile& tile) {
  const Tensor k = wide_.row_slice(0, tile.tokens), products = products_.row_slice(0, tile.tokens);
  if (tile.first) {
    core_.vcast(query_, q_.wait());
    q_.release();
    core_.vfill(sum_, 0);
    softmax_.begin();
  }
  core_.vcast(k, k_.wait().row_slice(0, tile.tokens));
  k_.release();
  for (index g = 0; g < rows_; ++g) {
    core_.vbinary(VectorOp::mul, products, k, query_.row_slice(g, 1));
    const Tensor scores = scores_.slice(g, 1, 0, tile.tokens);
    core_.vreduce(VectorOp::reduce_sum, scores.reshape({tile.tokens, 1}), products);
  }
  softmax_.tile(scores_.slice(0, rows_, 0, tile.tokens), rescale_, op_.scale);
}

void OnVectors::sum_up(const TokenTile& tile) {
  const Tensor v = wide_.row_slice(0, tile.tokens), products = products_.row_slice(0, tile.tokens);
  core_.vcast(v, v_.wait().row_slice(0, tile.tokens));
  v_.release();
  core_.vbinary(VectorOp::mul, sum_, sum_, rescale_);
  for (index g = 0; g < rows_; ++g) {
    const Tensor weights = scores_.slice(g, 1, 0, tile.tokens).reshape({tile.tokens, 1}), sum = sum_.row_slice(g, 1);
    core_.vbinary(VectorOp::mul, products, v, weights);
    for (index rows = tile.tokens; rows > 1; rows -= rows / 2) {
      const Tensor low = products.row_slice(0, rows / 2), high = products.row_slice(rows - rows / 2, rows / 2);
      core_.vbinary(VectorOp::add, low, low, high);
    }
    core_.vbinary(VectorOp::add, sum, sum, products.row_slice(0, 1));
  }
}

}  // namespace

void decode_on_vectors(Core& core, const DecodeOperands& op) { OnVectors(core, op).run(); }

}  // namespace inlay::npu
