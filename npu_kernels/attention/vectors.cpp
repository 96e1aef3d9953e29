// Attention without the matrix unit: each vector unit takes units of its own, with all options of all operators.
//
//   scores[r, t]  = sum_d q[r, d] k[t, d]                     multiply by the row q[r], sum each row
//   scores        = softcap(scores + bias), -inf where hidden  softmax.hpp
//   weights       = exp(scores - max), online                  softmax.hpp
//   sum[r, d]     = alpha sum[r, d] + sum_t weight[r, t] v[t, d]   multiply by the column, sum each column
//
//   load_vector   K(0), V(0)   K(1), V(1) ..
//   vector                     scores(0), sums(0)   scores(1), sums(1) ..
//   store                                                                 out, lse
//
// Everything is f32. A hidden key's V is taken out by selection: 0 times what lies there need not be 0. Sums over keys
// go key after key, and tiles start at fixed keys, so that what a row does not see changes none of its bits.
#include <algorithm>
#include <optional>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/attention/cache_tiles.hpp"
#include "npu_kernels/attention/softmax.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

TileForm form(const char* name, index rows, index columns, DType dtype = DType::f32) {
  return {name, Space::vector, {rows, std::max<index>(columns, 2)}, dtype, Layout::nd};
}

class OnVectors {
 public:
  OnVectors(Core& core, const AttentionCall& problem, const PartsWorkspace& space, VectorTiles tiles)
      : core_(core),
        problem_(problem),
        dim_(problem.k.dim),
        v_dim_(problem.v.dim),
        tokens_(tiles.tokens),
        chain_(core.auto_barrier(Pipe::vector)),
        wide_(tile("k or v in f32", tokens_, std::max(dim_, v_dim_))),
        k_(core, problem, problem.bound.k, "k", tokens_, scales(), wide_),
        v_(core, problem, problem.bound.v, "v", tokens_, scales(), wide_),
        q_(core.ring<2>("queries",
                        {form("q", std::max<index>(tiles.rows, 2), dim_, problem.q.dtype),
                         form("slopes", problem.alibi_slopes.present() ? std::max<index>(tiles.rows, 2) : 1, 1)},
                        {1, Pipe::load_vector, Pipe::vector})),
        softmax_(core, tiles.rows),
        rules_(core, problem, tiles.rows, tokens_, tokens_),
        finish_(core, problem, space, tiles.rows, tiles.rows),
        query_(tile("query", tiles.rows, dim_)),
        products_(tile("products", tokens_, std::max(dim_, v_dim_))),
        scores_(tile("scores", tiles.rows, tokens_)),
        sum_(tile("sum", tiles.rows, v_dim_)),
        of_tile_(tile("sum of a tile", tiles.rows, v_dim_)),
        rescale_(core.alloc("rescale", Space::vector, {tiles.rows, 1}, DType::f32)),
        zero_(core.alloc("zero", Space::vector, {1, 1}, DType::f32)) {
    core.vfill(zero_, 0);
  }

  void run(const QueryTile& unit, index number) {
    begin(unit);
    const AttentionSequence& s = problem_.sequence(unit);
    const std::vector<KeyTile> tiles = key_tiles(problem_, unit, tokens_);
    std::vector<index> blocks[2];
    const auto range = [&](std::size_t i) {
      return TokenRange{&s, unit.kv_head, tiles[i].first, tiles[i].count, &blocks[i % 2]};
    };
    const auto load = [&](std::size_t i) {
      if (i >= tiles.size()) return;
      blocks[i % 2] = blocks_of(core_, problem_, range(i));
      k_.load(range(i));
      v_.load(range(i));
    };
    load(0);
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      load(i + 1);
      sum_up(range(i), weigh(tiles[i], range(i)));
    }
    q_.release();
    const Tensor total = softmax_.total().row_slice(0, used_), maximum = softmax_.maximum().row_slice(0, used_);
    finish_.begin(unit, number, 0, sum_.slice(0, used_, 0, v_dim_), total, maximum);
    finish_.finish();
  }

 private:
  Tensor tile(const char* name, index rows, index columns) {
    return core_.alloc(name, Space::vector, {std::max<index>(rows, 2), std::max<index>(columns, 2)}, DType::f32);
  }
  ScaleTiles* scales() {  // of K and V
    if (problem_.quantized() && !scales_) scales_.emplace(core_, problem_, tokens_);
    return scales_ ? &*scales_ : nullptr;
  }
  void begin(const QueryTile& unit) {
    used_ = unit.rows();
    const auto q = [&](const Tensor& slot) { return slot.slice(0, used_, 0, dim_); };
    const auto slopes = [&](const Tensor& slot) {
      return problem_.alibi_slopes.present() ? slot.slice(0, used_, 0, 1) : slot;
    };
    const auto slots = q_.acquire();
    core_.copy(by_axes(q(slots[0])).split(0, unit.heads), problem_.rows(problem_.bound.q, unit));
    if (problem_.alibi_slopes.present())
      core_.copy(by_axes(slopes(slots[1])).split(0, unit.heads),
                 of_heads(problem_.bound.alibi_slopes.split(0, 1), unit));
    q_.commit();
    const auto filled = q_.wait();
    core_.vscalar(VectorOp::mul, q(query_), q(filled[0]), problem_.scale * problem_.k.factor);
    rules_.begin(unit, slopes(filled[1]));
    core_.vfill(sum_.slice(0, used_, 0, v_dim_), 0);
    softmax_.begin();
  }
  bool weigh(const KeyTile& tile, const TokenRange& range) {
    const Tensor k = k_.widen(range, wide_), products = products_.slice(0, tile.count, 0, dim_);
    const Tensor scores = scores_.slice(0, used_, 0, tile.count);
    for (index r = 0; r < used_; ++r) {
      core_.vbinary(VectorOp::mul, products, k, query_.slice(r, 1, 0, dim_));
      core_.vreduce(VectorOp::reduce_sum, scores.row_slice(r, 1).reshape({tile.count, 1}), products);
    }
    k_.release();
    const bool hidden = rules_.apply(scores, tile);
    softmax_.tile(scores, rescale_);
    return hidden;
  }
  void sum_up(const TokenRange& range, bool hidden) {
    const Tensor v = v_.widen(range, wide_), products = products_.slice(0, range.count, 0, v_dim_);
    for (index r = 0; r < used_; ++r) {
      core_.vbinary(VectorOp::mul, products, v, scores_.slice(r, 1, 0, range.count).reshape({range.count, 1}));
      if (hidden) core_.vselect(products, rules_.seen(r, range.count), products, zero_);
      core_.vreduce_columns(VectorOp::column_sum, of_tile_.slice(r, 1, 0, v_dim_), products);
    }
    v_.release();
    const Tensor sum = sum_.slice(0, used_, 0, v_dim_);
    core_.vbinary(VectorOp::mul, sum, sum, rescale_.row_slice(0, used_));
    core_.vbinary(VectorOp::add, sum, sum, of_tile_.slice(0, used_, 0, v_dim_));
  }

  Core& core_;
  const AttentionCall& problem_;
  const index dim_, v_dim_, tokens_;
  const AutoBarrier chain_;
  Tensor wide_;  // a tile of K, then of V
  std::optional<ScaleTiles> scales_;
  CacheTiles k_, v_;
  TupleRing<2> q_;  // and the slopes of its rows
  OnlineSoftmax softmax_;
  ScoreRules rules_;
  Finish finish_;
  Tensor query_, products_, scores_, sum_, of_tile_, rescale_, zero_;
  index used_ = 0;  // rows
};

}  // namespace

VectorTiles vector_tiles(const Device& device, const AttentionCall& p) {
  const Memory& memory = device.memory(Space::vector);
  const auto row = [&](index columns, DType dtype) {
    return round_up(byte_size(dtype, std::max<index>(columns, 2)), memory.align);
  };
  const index dim = p.k.dim, v_dim = p.v.dim, widest = std::max(dim, v_dim);
  const auto bytes = static_cast<index>(memory.bytes);
  // Query and its load, sum and that of a tile, out and its scales and offsets, a dozen of columns.
  const index row_bytes =
      2 * row(dim, DType::f32) + (p.out_scale.present() ? 5 : 3) * row(v_dim, DType::f32) + 12 * row(1, DType::f32);
  constexpr index max_rows = 32, max_tokens = 128;
  const index rows = std::clamp<index>(bytes / 3 / row_bytes, 1, max_rows);
  index token_bytes = 2 * row(dim, p.k.dtype()) + 2 * row(v_dim, p.v.dtype()) + 2 * row(widest, DType::f32) +
                      rows * 8 * byte_size(DType::f32, 1) + 4 * row(1, DType::f32);
  index gathered = 0;
  for (const Cached* cached : {&p.bound.k, &p.bound.v}) {
    if (!must_gather(device, *cached)) continue;
    gathered += 2 * bytes / gathered_share + 2 * row(cached->dim, DType::i32);
    token_bytes += row(cached->dim, DType::i32) - row(cached->dim, cached->dtype());
  }
  if (p.quantized()) token_bytes += 2 * row(1, DType::f32);
  const index fit =
      (bytes * 7 / 8 - std::max<index>(rows, 2) * row_bytes - 3 * row(widest, DType::f32) - gathered) / token_bytes;
  return {rows, std::clamp<index>(fit < 8 ? fit : round_down(fit, 8), 2, max_tokens)};
}

void attend_on_vectors(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                       const PartsWorkspace& space, VectorTiles tiles) {
  if (core.runs(Pipe::vector)) {
    OnVectors attention(core, problem, space, tiles);  // its rings end before the cores meet
    for (index i = core.vector_worker(); i < static_cast<index>(units.size()); i += core.vector_workers())
      attention.run(units[static_cast<std::size_t>(i)], i);
  }
  if (problem.splits > 1) merge_parts(core, problem, units, space);
}

}  // namespace inlay::npu
