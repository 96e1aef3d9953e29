#include "npu_kernels/attention/attend_matrix.hpp"

#include <algorithm>

#include "npu_kernels/attention/matrix_tiles.hpp"
#include "npu_kernels/attention/online_softmax.hpp"
#include "npu_kernels/attention/query_halves.hpp"
#include "npu_kernels/attention/score_rules.hpp"
#include "npu_kernels/attention/staged_loads.hpp"
#include "npu_kernels/attention/unit_handover.hpp"

namespace inlay::npu {

namespace {

constexpr float weight_unit = 16384;  // of weights in f16: their low halves stay normal numbers

// The four stages on one core, and what passes between them.
class Stages {
 public:
  Stages(Core& core, const AttentionProblem& problem, const PartsWorkspace& space, const MatrixPlan& plan);
  void run(const std::vector<WorkUnit>& units);

 private:
  void store_nothing(const KeyWork& work);
  void begin(const KeyWork& work);
  void mm1(const KeyWork& work);
  void vec1(const KeyWork& work, index i);
  void mm2(const KeyWork& work);
  void vec2(const KeyWork& work, index i);
  void multiply(const Tensor& to, const Tensor& left, index pieces, const Tensor& right, bool transpose);
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {most_, 1}, DType::f32); }
  static std::size_t slot_of(index i) { return static_cast<std::size_t>(i % weights_ahead); }

  Core& core_;
  const AttentionProblem& problem_;
  const MatrixPlan& plan_;
  const MatrixTiles& t_;
  const index v_dim_, most_;  // rows of a vector unit, at most
  const Chain chain_;
  StagedLoads loads_;
  Ring left_, right_, sums_;
  UnitToVector scores_, products_;
  UnitToLeft weights_;
  std::optional<TupleRing<2>> columns_;  // factors and slopes of a unit's rows
  OnlineSoftmax softmax_;
  ScoreRules rules_;
  Finish finish_;
  Tensor query_, sum_, factor_, low_;
  // What vec1 leaves for vec2, which is two tiles behind: of each tile the rescale, of its unit the ends.
  std::vector<Tensor> rescale_, end_total_, end_maximum_;
};

Stages::Stages(Core& core, const AttentionProblem& problem, const PartsWorkspace& space, const MatrixPlan& plan)
    : core_(core),
      problem_(problem),
      plan_(plan),
      t_(plan.tiles),
      v_dim_(problem.v.dim),
      most_(t_.most),
      chain_(core.chain(Pipe::vector)),
      loads_(core, problem, plan),
      left_(core.ring("left", Space::left, {t_.product_rows, t_.depth}, DType::f16, {2, Pipe::feed, Pipe::matrix},
                      Layout::nz)),
      right_(core.ring("right", Space::right, {t_.depth, std::max(t_.score_columns, t_.value_columns)}, DType::f16,
                       {2, Pipe::feed, Pipe::matrix}, Layout::nz)),
      sums_(core.ring("sums", Space::accumulator, {t_.product_rows, std::max(t_.score_columns, t_.value_columns)},
                      DType::f32, {2, Pipe::matrix, Pipe::drain})),
      scores_(core, "scores", {t_.rows, t_.tokens}, most_, plan.scores),
      products_(core, "products", {t_.rows, v_dim_}, most_, plan.products),
      weights_(core, plan.weight_pieces, {t_.rows, t_.tokens}, most_, plan.weights),
      softmax_(core, most_),
      rules_(core, problem, most_, t_.tokens),
      finish_(core, problem, space, most_) {
  const auto tile = [&](const char* name, index columns, DType dtype) {
    return core.alloc(name, Space::vector, {std::max<index>(most_, 2), std::max<index>(columns, 2)}, dtype);
  };
  sum_ = tile("sum", v_dim_, DType::f32);
  if (plan.weight_pieces > 1) low_ = tile("what the high half leaves", t_.tokens, DType::f32);
  factor_ = column("factor");
  for (index i = 0; i < weights_ahead; ++i) {
    rescale_.push_back(column("rescale"));
    end_total_.push_back(column("total of a unit"));
    end_maximum_.push_back(column("maximum of a unit"));
  }
  if (!plan.factors.present() && !problem.slopes.present()) return;
  const Shape shape{std::max<index>(most_, 2), 2};
  columns_.emplace(core.ring<2>("of the rows",
                                {{{"factors", Space::vector, shape, DType::f32, Layout::nd},
                                  {"slopes", Space::vector, shape, DType::f32, Layout::nd}}},
                                {1, Pipe::load_vector, Pipe::vector}));
}

void Stages::run(const std::vector<WorkUnit>& units) {
  const std::vector<KeyWork> works = key_works(core_, problem_, units, t_.tokens);
  const auto count = static_cast<index>(works.size());
  std::array<std::vector<index>, weights_ahead> blocks;
  const auto has = [&](index i) { return i >= 0 && i < count; };
  const auto work = [&](index i) -> const KeyWork& { return works[static_cast<std::size_t>(i)]; };
  for (index i = 0; i < count + 3; ++i) {
    if (has(i)) loads_.load_k(work(i), blocks[slot_of(i)]);
    if (has(i - 2)) loads_.load_v(work(i - 2), blocks[slot_of(i - 2)]);
    if (has(i - 1)) mm1(work(i - 1));
    if (has(i - 1)) vec1(work(i - 1), i - 1);
    if (has(i - 3)) mm2(work(i - 3));
    if (has(i - 3)) vec2(work(i - 3), i - 3);
  }
  for (index i = core_.block_idx(); i < static_cast<index>(units.size()); i += core_.block_dim())
    if (units[static_cast<std::size_t>(i)].begin >= units[static_cast<std::size_t>(i)].end)
      store_nothing(part_of(core_, units[static_cast<std::size_t>(i)], i));
}

// Of a unit that sees no key.
void Stages::store_nothing(const KeyWork& work) {
  const index rows = work.mine.count;
  if (rows == 0) return;
  const Tensor sum = sum_.slice(0, rows, 0, v_dim_);
  core_.vfill(sum, 0);
  softmax_.begin();
  finish_.store(work.mine_unit, work.number, work.mine.first, sum, softmax_.total().row_slice(0, rows),
                softmax_.maximum().row_slice(0, rows));
}

// to = sum over pieces of left * right, in steps of the depth; pieces are t_.rows rows apart.
void Stages::multiply(const Tensor& to, const Tensor& left, index pieces, const Tensor& right, bool transpose) {
  const index depth = transpose ? right.columns() : right.rows(), columns = to.columns();
  for (index r = 0; r < to.rows(); r += t_.product_rows) {
    const index rows = std::min(t_.product_rows, to.rows() - r);
    const Tensor acc = sums_.acquire().slice(0, rows, 0, columns);
    for (index k = 0; k < depth; k += t_.depth) {
      const index n = std::min(t_.depth, depth - k);
      const Tensor part = transpose ? right.slice(0, right.rows(), k, n) : right.row_slice(k, n);
      core_.load_b(right_.acquire().slice(0, n, 0, columns), part, transpose);
      right_.commit();
      const Tensor b = right_.wait().slice(0, n, 0, columns);
      for (index piece = 0; piece < pieces; ++piece) {
        core_.load_a(left_.acquire().slice(0, rows, 0, n), left.slice(piece * t_.rows + r, rows, k, n));
        left_.commit();
        core_.mma(acc, left_.wait().slice(0, rows, 0, n), b, k == 0 && piece == 0);
        left_.release();
      }
      right_.release();
    }
    sums_.commit();
    core_.drain(to.row_slice(r, rows), sums_.wait().slice(0, rows, 0, columns));
    sums_.release();
  }
}

void Stages::mm1(const KeyWork& work) {
  const index rows = work.unit->rows(), tokens = work.tile.count;
  if (work.first) query_ = loads_.q().wait();
  const Tensor k = loads_.k().wait(), to = scores_.acquire();
  for (index c = 0; c < tokens; c += t_.score_columns) {
    const index n = std::min(t_.score_columns, tokens - c);
    multiply(to.slice(0, rows, c, n), query_, plan_.q_pieces, k.row_slice(c, n), true);
  }
  loads_.k().release();
  if (work.last) loads_.q().release();
  scores_.commit(work.mine, tokens);
}

// Factors and slopes of the unit's rows.
void Stages::begin(const KeyWork& work) {
  const WorkUnit& unit = work.mine_unit;
  softmax_.begin();
  if (work.mine.count == 0) return;
  if (!columns_) return rules_.begin(unit, {});
  const auto used = [&](const Tensor& slot) { return slot.slice(0, unit.rows(), 0, 1); };
  const auto rows = [&](const Tensor& slot) { return by_axes(used(slot)).split(0, unit.heads); };
  const Sequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
  const RowWindow window{s.q_outer, s.q_row + unit.query, unit.queries, unit.head, unit.heads};
  const auto slots = columns_->acquire();
  if (plan_.factors.present()) core_.copy(rows(slots[0]), with_axis(window.of(plan_.factors), 2));
  if (problem_.slopes.present()) {
    const NdTensor of_heads = with_axis(with_axis(problem_.slopes.slice(0, unit.head, unit.heads), 1), 0);
    core_.copy(rows(slots[1]), spread(of_heads, 0, unit.queries));
  }
  columns_->commit();
  const auto filled = columns_->wait();
  if (plan_.factors.present()) core_.vcast(factor_.row_slice(0, unit.rows()), used(filled[0]));
  rules_.begin(unit, problem_.slopes.present() ? used(filled[1]) : Tensor{});
}

void Stages::vec1(const KeyWork& work, index i) {
  const index rows = work.mine.count, tokens = work.tile.count;
  if (work.first) begin(work);
  const Tensor s = scores_.wait().slice(0, rows, 0, tokens), weights = weights_.acquire();
  if (rows > 0) {
    if (plan_.factors.present())
      core_.vbinary(VectorOp::mul, s, s, factor_.row_slice(0, rows));
    else
      core_.vscalar(VectorOp::mul, s, s, problem_.scale * problem_.key_factor);
    rules_.apply(s, work.tile);
    softmax_.tile(s, rescale_[slot_of(i)], 1);
    if (plan_.weight_pieces > 1) {
      const Tensor high = weights.slice(0, rows, 0, tokens), low = low_.slice(0, rows, 0, tokens);
      core_.vscalar(VectorOp::mul, high, s, weight_unit * below_one);
      core_.vscalar(VectorOp::mul, s, s, weight_unit);
      core_.vbinary(VectorOp::sub, low, s, high);
      core_.vcast(weights.slice(weights_.most(), rows, 0, tokens), low);
    } else {
      core_.vscalar(VectorOp::mul, weights.slice(0, rows, 0, tokens), s, weight_unit);
    }
  }
  weights_.commit(work.mine, tokens);
  scores_.release();
  if (work.last) {
    if (columns_ && rows > 0) columns_->release();
    core_.vcast(end_total_[slot_of(i)], softmax_.total());
    core_.vcast(end_maximum_[slot_of(i)], softmax_.maximum());
  }
}

void Stages::mm2(const KeyWork& work) {
  const index rows = work.unit->rows(), tokens = work.tile.count;
  const Tensor p = weights_.wait(rows, tokens), v = loads_.v().wait().row_slice(0, tokens), to = products_.acquire();
  for (index c = 0; c < v_dim_; c += t_.value_columns) {
    const index n = std::min(t_.value_columns, v_dim_ - c);
    multiply(to.slice(0, rows, c, n), p, plan_.weight_pieces, v.slice(0, tokens, c, n), false);
  }
  weights_.release();
  loads_.v().release();
  products_.commit(work.mine, v_dim_);
}

void Stages::vec2(const KeyWork& work, index i) {
  const index rows = work.mine.count;
  const Tensor product = products_.wait().slice(0, rows, 0, v_dim_), sum = sum_.slice(0, rows, 0, v_dim_);
  const auto used = [&](const std::vector<Tensor>& of_tiles) { return of_tiles[slot_of(i)].row_slice(0, rows); };
  if (rows > 0) {
    if (work.first) {
      core_.vcast(sum, product);
    } else {
      core_.vbinary(VectorOp::mul, sum, sum, used(rescale_));
      core_.vbinary(VectorOp::add, sum, sum, product);
    }
  }
  products_.release();
  if (!work.last || rows == 0) return;
  core_.vscalar(VectorOp::mul, sum, sum, 1 / weight_unit);
  finish_.store(work.mine_unit, work.number, work.mine.first, sum, used(end_total_), used(end_maximum_));
}

}  // namespace

void attend_on_matrix(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                      const PartsWorkspace& space, const MatrixPlan& plan) {
  if (!plan.q_as_it_is) make_query_halves(core, problem, plan);
  Stages(core, problem, space, plan).run(units);  // its rings end before the cores meet
  if (problem.splits > 1) merge_parts(core, problem, units, space);
}

}  // namespace inlay::npu
