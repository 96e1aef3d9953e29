// Attention in the four stages of Ascend's IncreFlashAttention, for K and V in f16:
//
//   scores    Q K^T                                                load, feed, matrix, drain
//   softmax   weights = exp(rules(scores) - max), online           vector
//   products  weights V                                            load, feed, matrix, drain
//   finish    sum = sum * exp(max_before - max) + products         vector; divided at the end
//
// The rows (query, head of the group) of a unit are the rows of one product. Stages work on different tiles of keys:
//
//   step i:   scores, softmax (i-1)    products, finish (i-3)    q of i and i+1;   K and V as far ahead as there is
//   room
//
// Tiles of all units of a core are one sequence: the pipeline does not run empty between two units. Long units come
// first, so that the last tile, behind which nothing is left to overlap with, is a short one.
//
// Products are made for some rows of a unit at a time, and stop where the keys of the last of them end: under a causal
// mask few pairs are multiplied that nobody sees. The vector units take their rows in blocks.
//
// Exact to f32's tolerances: what f16 cannot hold goes in two halves, one product each into the same accumulator,
//
//   q / max |q| = high + low       p 2^14 = high + low          2^-21 of the row's largest, and of p
//
// both of one sign, so that an infinite K or V stays what it is: high is rounded from just below the number, by as much
// as the rounding may raise it. q in f16 is one piece as it is. Where a product of twice the rows takes hardly longer
// (an array that brings in V for a few of them), both halves of p are rows of one product, and the vector unit adds the
// two sums.
//
// `activations f16`: one piece of each. Where rows see many keys (a prompt) and nothing is added to scores, these are
// f16 too, scale q k as it leaves the accumulator, and so is what becomes of them up to the weights: half the bytes
// between the units, and twice the lanes.
//
// Where rows see different keys, products give a hidden key the weight 0, and 0 times an infinity of V is NaN. So it
// shows in the sums: as long as these are numbers no hidden key has had a part in them. If one is not, or a visible key
// made it so, the whole is done once more, in a way in which no row depends on its neighbours:
//
//   a prompt   by the matrix unit, each query for itself: no key behind it is multiplied, as in a chunk of one query;
//              and where that is no number either, as rules hide keys before its last, by the vector units
//   a token    by the vector units
//
// There a hidden key's V is taken out by selection. So are scores that f16 does not hold (`activations f16`).
#include <algorithm>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/attention/load.hpp"
#include "npu_kernels/attention/products.hpp"
#include "npu_kernels/attention/softmax.hpp"
#include "npu_kernels/attention/transport.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// The tiles of some units, and the loads of their keys.
struct Pass {
  Pass(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units, const AttentionPlan& by)
      : plan(by),
        works(tile_works(core, problem, units, by)),
        k(core, problem, by, problem.bound.k, "k", by.k, by.cache.k),
        v(core, problem, by, problem.bound.v, "v", by.v, by.cache.v) {}

  const AttentionPlan& plan;
  const std::vector<TileWork> works;
  PartLoads k, v;
};

// Of a tile's keys those that some rows of a unit see and others do not: not more than this, where the end of a window
// is the only rule.
index hidden_columns(const Device& device, const AttentionCall& problem, const Tiles& tiles) {
  if (!one_rule(problem) || problem.alibi_slopes.present() || problem.softcap > 0) return tiles.tokens;
  const index queries = ceil_div(tiles.rows, std::min(problem.group(), tiles.rows));
  return std::min(tiles.tokens, queries + 2 * index{device.vector.align});
}

// Each piece of what is staged begins with a whole step of the matrix unit, so that a unit which reads no part of one
// can be fed.
ToLeft::Form weights_form(const Device& device, const AttentionPlan& plan) {
  return {.pieces = plan.numbers.weight_pieces,
          .rows = plan.tiles.rows,
          .columns = plan.tiles.tokens,
          .block = round_up(plan.tiles.block, std::max<index>(device.matrix.m_granule, 2)),
          .staged_rows = round_up(plan.tiles.product_rows, std::max<index>(device.matrix.m_granule, 1)),
          .staged_columns = plan.tiles.part(),
          .depth = weights_ahead,
          .packed = plan.nz_weights,
          .in_place = plan.nz_weights && plan.numbers.f16_scores};
}

// The four stages on one core, and what passes between them.
class Pipeline {
 public:
  Pipeline(Core& core, const AttentionCall& problem, const PartsWorkspace& space, const AttentionPlan& plan)
      : core_(core),
        problem_(problem),
        plan_(plan),
        t_(plan.tiles),
        numbers_(plan.numbers),
        v_dim_(problem.v.dim),
        weight_unit_(numbers_.f16_scores ? 1.0f : 16384.0f),
        chain_(core.auto_barrier(Pipe::vector)),
        queries_(core, problem, plan),
        sums_(core, t_),
        scores_(core, "scores", t_, t_.tokens, true, numbers_.f16_scores ? DType::f16 : DType::f32, 2,
                plan.workspace.scores),
        products_(core, "products", t_, v_dim_, false, numbers_.products, t_.product_blocks, plan.workspace.products),
        weights_(core, "weights", weights_form(core.device(), plan), plan.workspace.weights),
        in_place_(plan.nz_weights && numbers_.f16_scores),
        softmax_(core, t_.most, numbers_.f16_scores ? DType::f16 : DType::f32, numbers_.weight_scale),
        rules_(core, problem, t_.block, t_.tokens, hidden_columns(core.device(), problem, t_)),
        finish_(core, problem, space, t_.most, t_.block, static_cast<std::uint32_t>(t_.result_blocks)) {
    sum_ = core.alloc("sum", Space::vector, {std::max<index>(t_.most, 2), std::max<index>(v_dim_, 2)}, DType::f32);
    for (index i = 0; i < weights_ahead; ++i) {
      rescale_.push_back(column("rescale"));
      end_total_.push_back(column("total of a unit"));
      end_maximum_.push_back(column("maximum of a unit"));
    }
    if (plan.nonfinite.present() && core.runs(Pipe::vector)) nonfinite_.emplace(core, v_dim_);
    if (!problem.alibi_slopes.present()) return;
    slopes_.emplace(core.ring("slopes", Space::vector, {std::max<index>(t_.most, 2), 2}, DType::f32,
                              {1, Pipe::load_vector, Pipe::vector}));
  }
  // What may come after the cores have met needs the room.
  ~Pipeline() {
    if (!core_.unwinding()) core_.release(sum_);
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // By a plan of the same numbers and tiles.
  void run(const std::vector<QueryTile>& units, const AttentionPlan& plan) {
    Pass& pass = pass_.emplace(core_, problem_, units, plan);
    open(pass);
    const auto count = static_cast<index>(pass.works.size());
    const auto work = [&](index i) -> const TileWork* {
      return i >= 0 && i < count ? &pass.works[static_cast<std::size_t>(i)] : nullptr;
    };
    for (index i = 1; i < count + 3; ++i) {
      const TileWork *before = work(i - 1), *behind = work(i - 3), *next = work(i), *after = work(i + 1);
      if (next && next->first) queries_.load(*next);
      if (behind) stage_weights(*behind);
      if (before) scores(*before);
      if (after && after->first) queries_.begin(*after);
      if (before) softmax(*before, i - 1);
      queries_.finish();
      if (behind) products(*behind);
      if (behind) finish(*behind, i - 3);
    }
    finish_.finish();
    for (const index i : plan.shares[core_.block_idx()])
      if (units[static_cast<std::size_t>(i)].begin >= units[static_cast<std::size_t>(i)].end)
        store_nothing(part_of(core_, units[static_cast<std::size_t>(i)], i));
    if (nonfinite_ && !plan.flags_of_units) nonfinite_->store(plan.nonfinite.row_slice(core_.vector_worker(), 1));
    pass_.reset();
  }

 private:
  struct Step {  // of products: rows, columns of V, keys of a part
    index row, rows, column, columns, first, keys, count;
  };

  // The first loads, and q of the first tile and, if that is another unit's, of the second. q comes before K, as what
  // the vector units load for the cache's blocks takes most of global memory's bandwidth; behind it if they make q: K
  // would wait for them.
  void open(Pass& pass) {
    const std::size_t count = pass.works.size();
    const auto make = [&](std::size_t i) {
      if (i < count && pass.works[i].first) queries_.begin(pass.works[i]), queries_.finish();
    };
    if (plan_.q_as_it_is && count > 0) queries_.load(pass.works[0]);
    pass.k.start(pass.works);
    make(0);
    if (!plan_.q_as_it_is && count > 0) queries_.load(pass.works[0]);
    if (pass.plan.cache.present()) {
      core_.sync_all();
      pass.k.take_blocks(), pass.v.take_blocks();
    }
    pass.v.start(pass.works);
    make(1);
  }

  // Of a unit that sees no key.
  void store_nothing(const TileWork& work) {
    const index rows = work.mine.count;
    if (rows == 0) return;
    const Tensor sum = sum_.slice(0, rows, 0, v_dim_);
    core_.vfill(sum, 0);
    softmax_.begin();
    finish_.begin(work.mine_unit, work.number, work.mine.first, sum, softmax_.total().row_slice(0, rows),
                  softmax_.maximum().row_slice(0, rows));
    finish_.finish();
  }

  void scores(const TileWork& work) {
    const index all = work.unit->rows(), apart = t_.rows, pieces = numbers_.q_pieces;
    if (work.first) query_ = queries_.wait();
    const Tensor to = scores_.acquire();
    for (index at = 0; at < work.tile.count; at += t_.part()) {
      const Tensor k = pass_->k.wait();
      for (index c = 0; c < k.rows(); c += t_.score_columns)
        for (index r = 0; r < all; r += t_.score_rows) {
          const index rows = std::min(t_.score_rows, all - r), keys = keys_of(problem_, t_, work, r) - at - c;
          const index n = std::min({t_.score_columns, k.rows() - c, keys});
          if (n <= 0) continue;  // nobody sees them
          const Tensor q = query_.slice(r, (pieces - 1) * apart + rows, 0, problem_.k.dim);
          sums_.begin(t_.score_rows, t_.score_columns, rows, n);
          sums_.add(q, pieces, apart, k.row_slice(c, n), true);
          sums_.drain(to.slice(r, rows, at + c, n), numbers_.drain_scale);
        }
      pass_->k.release();
    }
    if (work.last) queries_.release();
    scores_.commit();
  }

  void load_slopes(const QueryTile& unit) {
    const Tensor to = slopes_->acquire().slice(0, unit.rows(), 0, 1);
    core_.copy(by_axes(to).split(0, unit.heads), of_heads(problem_.bound.alibi_slopes.split(0, 1), unit));
    slopes_->commit();
    slopes_of_rows_ = slopes_->wait().slice(0, unit.rows(), 0, 1);
  }

  // Scores of a block become its weights.
  void weigh(const TileWork& work, const RowBlock& block, const Tensor& s) {
    const auto used = [&](const Tensor& column) { return column.row_slice(block.first, block.rows); };
    const bool f16_scores = numbers_.f16_scores;
    if (queries_.has_factors())
      core_.vbinary(VectorOp::mul, s, s, used(queries_.factor(work)));
    else if (!f16_scores && numbers_.score_scale != 1)
      core_.vscalar(VectorOp::mul, s, s, numbers_.score_scale);
    const KeyTile tile{work.tile.first, block.keys, work.tile.last};
    if (rules_.concern(block.unit, tile)) {
      rules_.begin(block.unit, slopes_ ? used(slopes_of_rows_) : Tensor{});
      if (one_rule(problem_) && !slopes_ && problem_.softcap <= 0)
        rules_.hide_ends(s, tile);
      else
        rules_.apply(s, tile);
    }
    const Tensor high = weights_.piece(work, block, 0, block.keys), weights = f16_scores ? high : s;
    softmax_.weigh(s, weights, block.first);
    if (!in_place_) softmax_.sum(weights, block.first);
    if (f16_scores) return;
    if (numbers_.weight_pieces == 1) return core_.vscalar(VectorOp::mul, high, s, weight_unit_);
    core_.vscalar(VectorOp::mul, high, s, weight_unit_ * below_one);
    weights_.pass(work, block, 0, block.keys);
    core_.vscalar(VectorOp::mul, s, s, weight_unit_);
    core_.vbinary(VectorOp::sub, weights_.piece(work, block, 1, block.keys), s, high);
  }

  void softmax(const TileWork& work, index i) {
    const index rows = work.mine.count;
    if (work.first) softmax_.begin();
    if (work.first && rows > 0 && slopes_) load_slopes(work.mine_unit);
    weights_.open();
    scores_.visit(work, row_blocks(problem_, t_, work), [&](const RowBlock& block, const Tensor& scores) {
      weights_.open(scores);
      weigh(work, block, scores);
      weights_.close(work, block, block.keys);
      if (in_place_) softmax_.fold_and_sum(scores, block.first, t_.tokens);
      queries_.advance();
      finish_.advance();
    });
    weights_.close();
    finish_.finish();  // of the unit before
    if (rows > 0) softmax_.finish(rescale_[slot_of(i)].row_slice(0, rows));
    if (!work.last) return;
    if (slopes_ && rows > 0) slopes_->release();
    core_.vcast(end_total_[slot_of(i)], softmax_.total());
    core_.vscalar(VectorOp::mul, end_maximum_[slot_of(i)], softmax_.maximum(), numbers_.weight_scale);
  }

  // The products with V, by rows, columns of V, parts of the tile; the first of their weights on their way.
  void stage_weights(const TileWork& work) {
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

  void products(const TileWork& work) {
    const index all = work.unit->rows(), apart = weights_.apart(), stacked = t_.hi_lo_stacked ? apart : 0;
    const Tensor to = products_.acquire();
    std::vector<Tensor> v;  // parts, which stay for all products
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& s = steps_[i];
      const auto part = static_cast<std::size_t>(s.first / t_.part());
      if (part == v.size()) v.push_back(pass_->v.wait());
      if (s.first == 0) sums_.begin(t_.sum_rows(), t_.value_columns, s.rows, s.columns, stacked);
      const Tensor left = weights_.wait(s.row, s.rows, s.first, s.count);
      sums_.add(left, numbers_.weight_pieces, apart, v[part].slice(0, s.count, s.column, s.columns), false);
      weights_.release();
      if (i + 2 < steps_.size()) stage(steps_[i + 2]);
      if (s.row + s.rows == all && s.column + s.columns == v_dim_) pass_->v.release();
      if (s.first + s.count == s.keys) sums_.drain(to.slice(s.row, stacked + s.rows, s.column, s.columns));
    }
    weights_.release_tile();
    products_.commit();
  }

  void finish(const TileWork& work, index i) {
    if (work.first) finish_.finish();  // of the unit before
    const std::vector<RowBlock> blocks = row_blocks(problem_, t_, work);
    products_.visit(work, blocks, [&](const RowBlock& block, const Tensor& product) {
      const Tensor sum = sum_.slice(block.first, block.rows, 0, v_dim_);
      if (work.first) {
        core_.vcast(sum, product);
      } else {
        core_.vbinary(VectorOp::mul, sum, sum, rescale_[slot_of(i)].row_slice(block.first, block.rows));
        core_.vbinary(VectorOp::add, sum, sum, product);
      }
      if (t_.hi_lo_stacked) core_.vbinary(VectorOp::add, sum, sum, products_.low(block));
    });
    if (!work.last) return;
    const index rows = work.mine.count;
    const Tensor sum = sum_.slice(0, rows, 0, v_dim_);
    if (nonfinite_ && rows > 0) nonfinite_->look(sum);
    if (nonfinite_ && pass_->plan.flags_of_units)
      nonfinite_->store(pass_->plan.nonfinite.row_slice(work.number * core_.vector_dim() + core_.vector_idx(), 1));
    if (rows == 0) return;
    if (weight_unit_ != 1) core_.vscalar(VectorOp::mul, sum, sum, 1 / weight_unit_);
    finish_.begin(work.mine_unit, work.number, work.mine.first, sum, end_total_[slot_of(i)].row_slice(0, rows),
                  end_maximum_[slot_of(i)].row_slice(0, rows));
  }

  void stage(const Step& step) { weights_.stage(step.row, step.rows, step.first, step.count); }
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {t_.most, 1}, DType::f32); }
  static std::size_t slot_of(index i) { return static_cast<std::size_t>(i % weights_ahead); }

  Core& core_;
  const AttentionCall& problem_;
  const AttentionPlan& plan_;
  const Tiles& t_;
  const Numbers& numbers_;
  const index v_dim_;
  const float weight_unit_;  // of weights in f16: their low halves stay normal numbers
  const AutoBarrier chain_;
  std::optional<Pass> pass_;
  Queries queries_;
  UnitProducts sums_;  // of both products
  ToVector scores_, products_;
  ToLeft weights_;
  const bool in_place_;         // weights are made where their scores are
  std::optional<Ring> slopes_;  // of a unit's rows
  OnlineSoftmax softmax_;
  ScoreRules rules_;
  Finish finish_;
  std::optional<NonfiniteFlag> nonfinite_;
  Tensor query_, sum_, slopes_of_rows_;
  std::vector<Step> steps_;
  // What the softmax leaves for finish, which is two tiles behind: of each tile the rescale, of its unit the ends.
  std::vector<Tensor> rescale_, end_total_, end_maximum_;
};

}  // namespace

bool attend_on_matrix(Core& core, const AttentionCall& problem, const std::vector<QueryTile>& units,
                      const PartsWorkspace& space, const AttentionPlan& plan, const PerQueryPlan* alone) {
  bool numbers = true;
  if (plan.cache.present() && core.runs(Pipe::vector)) make_cache_blocks(core, problem, plan.cache);
  {
    Pipeline pipeline(core, problem, space, plan);  // its rings end before the cores meet
    pipeline.run(units, plan);
    if (alone != nullptr) numbers = sums_are_finite(core, plan.nonfinite);
    if (!numbers) pipeline.run(alone->units, alone->plan);
  }
  if (problem.splits > 1) merge_parts(core, problem, units, space);
  return numbers;
}

}  // namespace inlay::npu
