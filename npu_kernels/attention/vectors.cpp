#include "npu_kernels/attention/vectors.hpp"

#include <algorithm>
#include <optional>

#include "npu_kernels/attention/cache_tiles.hpp"
#include "npu_kernels/attention/softmax.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

class OnVectors {
 public:
  OnVectors(Core& core, const AttentionCall& problem, const PartsWorkspace& space, VectorTiles tiles);
  void run(const QueryTile& unit, index number);

 private:
  Tensor tile(const char* name, index rows, index columns) {
    return core_.alloc(name, Space::vector, {std::max<index>(rows, 2), std::max<index>(columns, 2)}, DType::f32);
  }
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {rows_, 1}, DType::f32); }
  void begin(const QueryTile& unit);
  bool weigh(const KeyTile& tile, const TokenRange& range);
  void sum_up(const TokenRange& range, bool hidden);

  Core& core_;
  const AttentionCall& problem_;
  const index rows_, tokens_;
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

OnVectors::OnVectors(Core& core, const AttentionCall& problem, const PartsWorkspace& space, VectorTiles tiles)
    : core_(core),
      problem_(problem),
      rows_(tiles.rows),
      tokens_(tiles.tokens),
      chain_(core.auto_barrier(Pipe::vector)),
      wide_(tile("k or v in f32", tokens_, std::max(problem.k.dim, problem.v.dim))),
      scales_([&] {
        std::optional<ScaleTiles> scales;
        if (problem.quantized()) scales.emplace(core, problem, tokens_);
        return scales;
      }()),
      k_(core, problem, problem.bound.k, "k", tokens_, scales_ ? &*scales_ : nullptr, wide_),
      v_(core, problem, problem.bound.v, "v", tokens_, scales_ ? &*scales_ : nullptr, wide_),
      q_(core.ring<2>("queries",
                      {{{"q",
                         Space::vector,
                         {std::max<index>(rows_, 2), std::max<index>(problem.k.dim, 2)},
                         problem.q.dtype,
                         Layout::nd},
                        {"slopes",
                         Space::vector,
                         {problem.alibi_slopes.present() ? std::max<index>(rows_, 2) : 1, 2},
                         DType::f32,
                         Layout::nd}}},
                      {1, Pipe::load_vector, Pipe::vector})),
      softmax_(core, rows_),
      rules_(core, problem, rows_, tokens_, tokens_),
      finish_(core, problem, space, rows_, rows_),
      query_(tile("query", rows_, problem.k.dim)),
      products_(tile("products", tokens_, std::max(problem.k.dim, problem.v.dim))),
      scores_(tile("scores", rows_, tokens_)),
      sum_(tile("sum", rows_, problem.v.dim)),
      of_tile_(tile("sum of a tile", rows_, problem.v.dim)),
      rescale_(column("rescale")),
      zero_(core.alloc("zero", Space::vector, {1, 1}, DType::f32)) {
  core.vfill(zero_, 0);
}

void OnVectors::begin(const QueryTile& unit) {
  const AttentionSequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
  used_ = unit.rows();
  const auto slots = q_.acquire();
  const Tensor q = slots[0].slice(0, used_, 0, problem_.k.dim);
  const RowWindow window{s.q_outer, s.q_row + unit.query, unit.queries, unit.head, unit.heads};
  core_.copy(by_axes(q).split(0, unit.heads), window.of(problem_.bound.q));
  Tensor slopes = slots[1];
  if (problem_.alibi_slopes.present()) {
    slopes = slopes.slice(0, used_, 0, 1);
    const NdTensor of_heads =
        problem_.bound.alibi_slopes.slice(0, unit.head, unit.heads).split(0, 1).split(0, unit.heads);
    core_.copy(by_axes(slopes).split(0, unit.heads), spread(of_heads, 0, unit.queries));
  }
  q_.commit();
  const auto filled = q_.wait();
  core_.vscalar(VectorOp::mul, query_.slice(0, used_, 0, problem_.k.dim), filled[0].slice(0, used_, 0, problem_.k.dim),
                problem_.scale * problem_.k.factor);
  rules_.begin(unit, problem_.alibi_slopes.present() ? filled[1].slice(0, used_, 0, 1) : filled[1]);
  core_.vfill(sum_.slice(0, used_, 0, problem_.v.dim), 0);
  softmax_.begin();
}

void OnVectors::run(const QueryTile& unit, index number) {
  begin(unit);
  const AttentionSequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
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
  finish_.store(unit, number, 0, sum_.slice(0, used_, 0, problem_.v.dim), total, maximum);
}

bool OnVectors::weigh(const KeyTile& tile, const TokenRange& range) {
  const Tensor k = k_.widen(range, wide_), products = products_.slice(0, tile.count, 0, problem_.k.dim);
  const Tensor scores = scores_.slice(0, used_, 0, tile.count);
  for (index r = 0; r < used_; ++r) {
    core_.vbinary(VectorOp::mul, products, k, query_.slice(r, 1, 0, problem_.k.dim));
    core_.vreduce(VectorOp::reduce_sum, scores.row_slice(r, 1).reshape({tile.count, 1}), products);
  }
  k_.release();
  const bool hidden = rules_.apply(scores, tile);
  softmax_.tile(scores, rescale_);
  return hidden;
}

void OnVectors::sum_up(const TokenRange& range, bool hidden) {
  const Tensor v = v_.widen(range, wide_), products = products_.slice(0, range.count, 0, problem_.v.dim);
  const auto part = [&](const Tensor& full) { return full.slice(0, used_, 0, problem_.v.dim); };
  for (index r = 0; r < used_; ++r) {
    const Tensor weights = scores_.slice(r, 1, 0, range.count).reshape({range.count, 1});
    core_.vbinary(VectorOp::mul, products, v, weights);
    if (hidden) core_.vselect(products, rules_.seen(r, range.count), products, zero_);
    core_.vreduce_columns(VectorOp::column_sum, of_tile_.slice(r, 1, 0, problem_.v.dim), products);
  }
  v_.release();
  core_.vbinary(VectorOp::mul, part(sum_), part(sum_), rescale_.row_slice(0, used_));
  core_.vbinary(VectorOp::add, part(sum_), part(sum_), part(of_tile_));
}

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
