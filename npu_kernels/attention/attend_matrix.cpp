#include "npu_kernels/attention/attend_matrix.hpp"

#include <algorithm>

#include "npu_kernels/attention/finite_sums.hpp"
#include "npu_kernels/attention/handover.hpp"
#include "npu_kernels/attention/matrix_tiles.hpp"
#include "npu_kernels/attention/online_softmax.hpp"
#include "npu_kernels/attention/query_halves.hpp"
#include "npu_kernels/attention/score_rules.hpp"
#include "npu_kernels/attention/staged_loads.hpp"
#include "npu_kernels/attention/unit_products.hpp"

namespace inlay::npu {

namespace {

// The tiles of some units, and the loads of their keys.
struct Round {
  Round(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units, const MatrixPlan& by)
      : plan(by),
        works(key_works(core, problem, units, by)),
        tables(core, problem, works.size() * static_cast<std::size_t>(by.tiles.parts)),
        k(core, problem, problem.k, by.cache, by.cache.k, "k", by, false, 2),
        v(core, problem, problem.v, by.cache, by.cache.v, "v", by, by.turns_values, 2) {}

  const MatrixPlan& plan;
  const std::vector<KeyWork> works;
  TableReads tables;
  PartLoads k, v;
};

// The four stages on one core, and what passes between them.
class Stages {
 public:
  Stages(Core& core, const AttentionProblem& problem, const PartsWorkspace& space, const MatrixPlan& plan);
  // What may come after the cores have met (finite_sums.hpp) needs the room.
  ~Stages() {
    if (!core_.unwinding()) core_.release(sum_);
  }
  Stages(const Stages&) = delete;
  Stages& operator=(const Stages&) = delete;
  // By a plan of the same numbers and tiles.
  void run(const std::vector<WorkUnit>& units, const MatrixPlan& plan);

 private:
  void store_nothing(const KeyWork& work);
  void begin(const KeyWork& work);
  void mm1(const KeyWork& work);
  void vec1(const KeyWork& work, index i);
  void weigh(const KeyWork& work, const RowBlock& block, const Tensor& scores);
  struct Step {  // of mm2
    index row, rows, column, columns, first, keys, count;
  };
  void stage_weights(const KeyWork& work);
  void stage(const Step& step) { weights_.stage(step.row, step.rows, step.first, step.count); }
  void mm2(const KeyWork& work);
  void vec2(const KeyWork& work, index i);
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {most_, 1}, DType::f32); }
  static std::size_t slot_of(index i) { return static_cast<std::size_t>(i % weights_ahead); }

  Core& core_;
  const AttentionProblem& problem_;
  const MatrixPlan& plan_;
  const MatrixTiles& t_;
  const index v_dim_, most_;  // rows of a vector unit, at most
  const float weight_unit_;   // of weights in f16: their low halves stay normal numbers
  const Chain chain_;
  std::optional<Round> round_;
  Queries queries_;
  UnitProducts sums_;  // of both products
  UnitToVector scores_, products_;
  std::optional<UnitToVector> low_products_;  // where they are stacked
  UnitToLeft weights_;
  std::optional<Ring> slopes_;  // of a unit's rows
  OnlineSoftmax softmax_;
  ScoreRules rules_;
  Finish finish_;
  std::optional<FiniteSums> finite_;
  Tensor query_, sum_, slopes_of_rows_;
  std::vector<Step> steps_;
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
      weight_unit_(plan.narrow ? 1.0f : 16384.0f),
      chain_(core.chain(Pipe::vector)),
      queries_(core, problem, plan),
      sums_(core, t_),
      scores_(core, "scores", t_, t_.tokens, true, plan.narrow ? DType::f16 : DType::f32, 2, plan.scores),
      products_(core, "products", t_, v_dim_, false, plan.product_type, t_.products, plan.products),
      weights_(core, plan, plan.weights),
      softmax_(core, most_, plan.narrow ? DType::f16 : DType::f32, plan.weight_scale),
      rules_(core, problem, t_.block, t_.tokens, hidden_columns(core.device(), problem, t_)),
      finish_(core, problem, space, most_, t_.block, static_cast<std::uint32_t>(t_.results)) {
  if (t_.stacked)
    low_products_.emplace(core, "low products", t_, v_dim_, false, plan.product_type, t_.products, plan.products);
  sum_ = core.alloc("sum", Space::vector, {std::max<index>(most_, 2), std::max<index>(v_dim_, 2)}, DType::f32);
  for (index i = 0; i < weights_ahead; ++i) {
    rescale_.push_back(column("rescale"));
    end_total_.push_back(column("total of a unit"));
    end_maximum_.push_back(column("maximum of a unit"));
  }
  if (plan.not_numbers.present() && core.runs(Pipe::vector)) finite_.emplace(core, v_dim_);
  if (!problem.slopes.present()) return;
  slopes_.emplace(core.ring("slopes", Space::vector, {std::max<index>(most_, 2), 2}, DType::f32,
                            {1, Pipe::load_vector, Pipe::vector}));
}

void Stages::run(const std::vector<WorkUnit>& units, const MatrixPlan& plan) {
  Round& round = round_.emplace(core_, problem_, units, plan);
  const auto count = static_cast<index>(round.works.size());
  const auto has = [&](index i) { return i >= 0 && i < count; };
  const auto work = [&](index i) -> const KeyWork& { return round.works[static_cast<std::size_t>(i)]; };
  // q of a unit, made and loaded before the products of its first tile.
  const auto load_queries = [&](index i) {
    if (has(i) && work(i).first) queries_.load(work(i));
  };
  const auto make_queries = [&](index i) {
    if (has(i) && work(i).first) queries_.begin(work(i));
  };
  // q before K, as what the vector units load for the cache's blocks takes most of global memory's bandwidth; behind it
  // if they make q: K would wait for them.
  const bool q_first = plan.q_as_it_is;
  if (q_first) load_queries(0);
  round.k.start(round.works, round.tables);
  make_queries(0);
  queries_.finish();
  if (!q_first) load_queries(0);
  // While they make blocks, the matrix unit takes rows: a tile of scores is ahead. With two all would wait for the
  // second one when the cores meet (1.4 % more cycles), with none for the first (1.6 %).
  const bool ahead = plan.cache.present() && has(0);
  if (ahead) mm1(work(0));
  if (plan.cache.present()) {
    core_.sync_all();
    round.k.take_blocks(), round.v.take_blocks();
  }
  round.v.start(round.works, round.tables);
  make_queries(1);
  queries_.finish();
  for (index i = 1; i < count + 3; ++i) {
    load_queries(i);
    if (has(i - 3)) stage_weights(work(i - 3));
    if (has(i - 1) && !(ahead && i == 1)) mm1(work(i - 1));
    make_queries(i + 1);
    if (has(i - 1)) vec1(work(i - 1), i - 1);
    queries_.finish();
    if (has(i - 3)) mm2(work(i - 3));
    if (has(i - 3)) vec2(work(i - 3), i - 3);
  }
  finish_.finish();
  for (const index i : plan.shares[core_.block_idx()])
    if (units[static_cast<std::size_t>(i)].begin >= units[static_cast<std::size_t>(i)].end)
      store_nothing(part_of(core_, units[static_cast<std::size_t>(i)], i));
  if (finite_ && !plan.flags_of_units) finite_->store(plan.not_numbers.row_slice(core_.vector_worker(), 1));
  round_.reset();
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

void Stages::mm1(const KeyWork& work) {
  const index all = work.unit->rows(), apart = t_.rows;
  if (work.first) query_ = queries_.wait();
  const Tensor to = scores_.acquire();
  for (index at = 0; at < work.tile.count; at += t_.part()) {
    const Tensor k = round_->k.wait();
    for (index c = 0; c < k.rows(); c += t_.score_columns)
      for (index r = 0; r < all; r += t_.score_rows) {
        const index rows = std::min(t_.score_rows, all - r), keys = keys_of(problem_, t_, work, r) - at - c;
        const index n = std::min({t_.score_columns, k.rows() - c, keys});
        if (n <= 0) continue;  // nobody sees them
        const Tensor q = query_.slice(r, (plan_.q_pieces - 1) * apart + rows, 0, problem_.k.dim);
        sums_.begin(t_.score_rows, t_.score_columns, rows, n);
        sums_.add(q, plan_.q_pieces, apart, k.row_slice(c, n), true);
        sums_.drain(to.slice(r, rows, at + c, n), plan_.drain_scale);
      }
    round_->k.release();
  }
  if (work.last) queries_.release();
  scores_.commit();
}

// Of a unit: maxima and totals, and the slopes of its rows.
void Stages::begin(const KeyWork& work) {
  const WorkUnit& unit = work.mine_unit;
  softmax_.begin();
  if (work.mine.count == 0 || !slopes_) return;
  const NdTensor of_heads = with_axis(with_axis(problem_.slopes.slice(0, unit.head, unit.heads), 1), 0);
  const Tensor to = slopes_->acquire().slice(0, unit.rows(), 0, 1);
  core_.copy(by_axes(to).split(0, unit.heads), spread(of_heads, 0, unit.queries));
  slopes_->commit();
  slopes_of_rows_ = slopes_->wait().slice(0, unit.rows(), 0, 1);
}

// Scores of a block become its weights.
void Stages::weigh(const KeyWork& work, const RowBlock& block, const Tensor& s) {
  const auto used = [&](const Tensor& column) { return column.row_slice(block.first, block.rows); };
  if (queries_.has_factors())
    core_.vbinary(VectorOp::mul, s, s, used(queries_.factor(work)));
  else if (!plan_.narrow && plan_.score_scale != 1)
    core_.vscalar(VectorOp::mul, s, s, plan_.score_scale);
  const KeyTile tile{work.tile.first, block.keys, work.tile.last};
  if (rules_.concern(block.unit, tile)) {
    rules_.begin(block.unit, slopes_ ? used(slopes_of_rows_) : Tensor{});
    if (one_rule(problem_) && !slopes_ && problem_.softcap <= 0)
      rules_.hide_ends(s, tile);
    else
      rules_.apply(s, tile);
  }
  const Tensor high = weights_.piece(block, 0);
  softmax_.weigh(s, plan_.narrow ? high : s, block.first);
  if (!weights_.in_place()) softmax_.sum(plan_.narrow ? high : s, block.first);
  if (plan_.narrow) return;
  if (plan_.weight_pieces == 1) return core_.vscalar(VectorOp::mul, high, s, weight_unit_);
  core_.vscalar(VectorOp::mul, high, s, weight_unit_ * below_one);
  weights_.pass(work, block, 0);
  core_.vscalar(VectorOp::mul, s, s, weight_unit_);
  core_.vbinary(VectorOp::sub, weights_.piece(block, 1), s, high);
}

void Stages::vec1(const KeyWork& work, index i) {
  if (work.first) begin(work);
  weights_.open();
  scores_.visit(work, row_blocks(problem_, t_, work), [&](const RowBlock& block, const Tensor& scores) {
    weights_.open(block, scores);
    weigh(work, block, scores);
    weights_.close(work, block);
    if (weights_.in_place()) softmax_.fold_and_sum(scores, block.first, t_.tokens);
    queries_.advance();
    finish_.advance();
  });
  weights_.close();
  finish_.finish();  // of the unit before
  if (work.mine.count > 0) softmax_.finish(rescale_[slot_of(i)].row_slice(0, work.mine.count));
  if (!work.last) return;
  if (slopes_ && work.mine.count > 0) slopes_->release();
  core_.vcast(end_total_[slot_of(i)], softmax_.total());
  core_.vscalar(VectorOp::mul, end_maximum_[slot_of(i)], softmax_.maximum(), plan_.weight_scale);
}

// The products of mm2, by rows, columns of V, parts of the tile; the first of their weights on their way.
void Stages::stage_weights(const KeyWork& work) {
  const index all = work.unit->rows();
  steps_.clear();
  for (index r = 0; r < all; r += t_.product_rows)
    for (index c = 0; c < v_dim_; c += t_.value_columns)
      for (index at = 0, keys = keys_of(problem_, t_, work, r); at < keys; at += t_.part())
        steps_.push_back({r, std::min(t_.product_rows, all - r), c, std::min(t_.value_columns, v_dim_ - c), at, keys,
                          std::min(t_.part(), keys - at)});
  weights_.wait_tile();
  for (std::size_t i = 0; i < std::min<std::size_t>(steps_.size(), 2); ++i) stage(steps_[i]);
}

void Stages::mm2(const KeyWork& work) {
  const index all = work.unit->rows();
  const Tensor to = products_.acquire(), low = t_.stacked ? low_products_->acquire() : to;
  const index apart = weights_.apart();
  std::vector<Tensor> v;  // parts, which stay for all products
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const index row = steps_[i].row, rows = steps_[i].rows, column = steps_[i].column, columns = steps_[i].columns;
    const index first = steps_[i].first, keys = steps_[i].keys, count = steps_[i].count;
    const auto part = static_cast<std::size_t>(first / t_.part());
    if (part == v.size()) v.push_back(round_->v.wait());
    if (first == 0) sums_.begin(t_.sum_rows(), t_.value_columns, t_.stacked ? apart + rows : rows, columns);
    const Tensor left = weights_.wait(row, rows, first, count), right = v[part].slice(0, count, column, columns);
    if (t_.stacked)
      sums_.add_stacked(left, apart, right);
    else
      sums_.add(left, plan_.weight_pieces, apart, right, false);
    weights_.release();
    if (i + 2 < steps_.size()) stage(steps_[i + 2]);
    if (row + rows == all && column + columns == v_dim_) round_->v.release();
    if (first + count < keys) continue;
    if (t_.stacked)
      sums_.drain_stacked(to.slice(row, rows, column, columns), low.slice(row, rows, column, columns), apart);
    else
      sums_.drain(to.slice(row, rows, column, columns));
  }
  weights_.release_tile();
  products_.commit();
  if (t_.stacked) low_products_->commit();
}

void Stages::vec2(const KeyWork& work, index i) {
  if (work.first) finish_.finish();  // of the unit before
  const auto add = [&](const RowBlock& block, const Tensor& product) {
    const auto used = [&](const std::vector<Tensor>& of_tiles) {
      return of_tiles[slot_of(i)].row_slice(block.first, block.rows);
    };
    const Tensor sum = sum_.slice(block.first, block.rows, 0, v_dim_);
    if (work.first) {
      core_.vcast(sum, product);
    } else {
      core_.vbinary(VectorOp::mul, sum, sum, used(rescale_));
      core_.vbinary(VectorOp::add, sum, sum, product);
    }
  };
  products_.visit(work, row_blocks(problem_, t_, work), add);
  if (t_.stacked)
    low_products_->visit(work, row_blocks(problem_, t_, work), [&](const RowBlock& block, const Tensor& product) {
      const Tensor sum = sum_.slice(block.first, block.rows, 0, v_dim_);
      core_.vbinary(VectorOp::add, sum, sum, product);
    });
  if (!work.last) return;
  const index rows = work.mine.count;
  const auto used = [&](const std::vector<Tensor>& of_tiles) { return of_tiles[slot_of(i)].row_slice(0, rows); };
  const Tensor sum = sum_.slice(0, rows, 0, v_dim_);
  if (finite_ && rows > 0) finite_->look(sum);
  if (finite_ && round_->plan.flags_of_units)
    finite_->store(round_->plan.not_numbers.row_slice(work.number * core_.vector_dim() + core_.vector_idx(), 1));
  if (rows == 0) return;
  if (weight_unit_ != 1) core_.vscalar(VectorOp::mul, sum, sum, 1 / weight_unit_);
  finish_.begin(work.mine_unit, work.number, work.mine.first, sum, used(end_total_), used(end_maximum_));
}

}  // namespace

bool attend_on_matrix(Core& core, const AttentionProblem& problem, const std::vector<WorkUnit>& units,
                      const PartsWorkspace& space, const MatrixPlan& plan, const QueriesAlone* alone) {
  bool numbers = true;
  if (plan.cache.present() && core.runs(Pipe::vector)) make_cache_blocks(core, problem, plan.cache);
  {
    Stages stages(core, problem, space, plan);  // its rings end before the cores meet
    stages.run(units, plan);
    if (alone != nullptr) numbers = sums_are_numbers(core, plan.not_numbers);
    if (!numbers) stages.run(alone->units, alone->plan);
  }
  if (problem.splits > 1) merge_parts(core, problem, units, space);
  return numbers;
}

}  // namespace inlay::npu
