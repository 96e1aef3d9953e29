// Which experts a token goes to, and the rows of all tokens sorted by expert (ops/moe_routing.hpp has the equations).
//
//   unit w  | its tokens, a tile after another |    vector   scores, the largest one by one   -> weights, ids
//           |                                  |             counts of the experts           -> counts[w, :]
//                            sync_all
//   unit w  | counts of all units |                 vector   rows before its own, of the expert and of those below it
//           | its tokens again    |                 vector   rows[t, :] = base[ids[t, :]], base += experts of t
//                                                   scalar   row_tokens[rows[t, j]] = t
//
// The largest are found by one argmax for each choice, whose places are also what the counts are made of: a device
// needs no sort.
#include <inlay/ops/moe_routing.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/sigmoid.hpp"
#include "npu_kernels/rows/tiles.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr float most_of_f32 = std::numeric_limits<float>::max(), gone = -std::numeric_limits<float>::infinity();
constexpr index largest_tile = 64;           // tokens
constexpr index most_rows = index{1} << 24;  // that f32 counts

struct RoutingOperands {
  NdTensor logits, bias, weights, ids, rows, row_tokens, expert_ends;
  Tensor counts;  // [units, experts] of the workspace
  bool biased;
  MoeScore score;
  index groups, groups_kept;
  bool sums_two, renormalize;
  float scale;
  index tile;  // tokens

  index tokens() const { return logits.extent(0); }
  index experts() const { return logits.extent(1); }
  index top_k() const { return weights.extent(1); }
  index of_group() const { return experts() / groups; }
};

// Tokens that fit into the vector unit's memory at once.
index tokens_that_fit(const Device& device, const MoeRouting<Host>& op) {
  const index experts = op.logits.extents[1] + 8, top_k = op.weights.extents[1] + 8, groups = op.groups + 8;
  const index shared = 4096 + 14 * index{sizeof(float)} * experts;
  const index each = experts * (4 * index{sizeof(float)} + 2 * bits(op.logits.dtype) / 8) +
                     index{sizeof(float)} * (10 * top_k + 5 * groups + 3 * (experts / op.groups + 8) + 64);
  return (static_cast<index>(device.memory(Space::vector).bytes) - shared) / each;
}

// A tile of so many rows and columns; rows start at granules where there are two columns.
Tensor tile(Core& core, const char* name, index rows, index columns, DType dtype = DType::f32) {
  return core.alloc(name, Space::vector, {rows, std::max<index>(2, columns)}, dtype);
}
Shape wide(index rows, index columns) { return {rows, std::max<index>(2, columns)}; }

// What both passes take.
struct RoutingTiles {
  Tensor choice, mask, experts;  // [tile, experts]; `experts` has their numbers
  Tensor places;                 // [top_k, tile]: a row for each choice, that argmax writes as a column

  RoutingTiles(Core& core, const RoutingOperands& op)
      : choice(tile(core, "choices", op.tile, op.experts())),
        mask(tile(core, "mask", op.tile, op.experts())),
        experts(tile(core, "numbers of experts", op.tile, op.experts(), DType::i32)),
        places(tile(core, "places", std::max<index>(2, op.top_k()), op.tile, DType::i32)) {
    core.viota(experts, {});
  }
};
// Row `i` of a tile, as a column.
Tensor as_column(const Tensor& rows, index i, index count) { return rows.slice(i, 1, 0, count).reshape({count, 1}); }

class Choose {
 public:
  Choose(Core& core, const RoutingOperands& op, const RoutingTiles& tiles)
      : core_(core),
        op_(op),
        tiles_(tiles),
        logits_(core.ring("logits", Space::vector, wide(op.tile, op.experts()), op.logits.first.dtype,
                          {2, Pipe::load_vector, Pipe::vector})),
        results_(core.ring<2>("results",
                              {TileForm{"weights", Space::vector, wide(op.tile, op.top_k()), DType::f32, Layout::nd},
                               TileForm{"ids", Space::vector, wide(op.tile, op.top_k()), DType::i32, Layout::nd}},
                              {1, Pipe::vector, Pipe::store})),
        counts_(core.ring("counts", Space::vector, wide(1, op.experts()), DType::f32, {1, Pipe::vector, Pipe::store})),
        score_(tile(core, "scores", op.tile, op.experts())),
        spare_(tile(core, "counts of a tile", 1, op.experts())),
        sound_(column("sound")),
        value_(column("value")),
        second_(column("second value")),
        place_(core.alloc("place", Space::vector, {op.tile, 1}, DType::i32)),
        gone_(rows::constant(core, "minus infinity", gone)),
        zero_(rows::constant(core, "zero", 0)),
        nan_(rows::constant(core, "NaN", std::numeric_limits<float>::quiet_NaN())) {
    if (op.biased) {
      bias_.emplace(
          core.ring("bias", Space::vector, wide(1, op.experts()), DType::f32, {1, Pipe::load_vector, Pipe::vector}));
      core.copy(by_axes(bias_->acquire().slice(0, 1, 0, op.experts())), op.bias.split(0, op.experts()));
      bias_->commit();
      bias_row_ = bias_->wait().slice(0, 1, 0, op.experts());
    }
    if (op.groups_kept < op.groups) {
      of_groups_ = tile(core, "values of groups, a row each", std::max<index>(2, op.groups), op.tile);
      values_ = tile(core, "values of groups", op.tile, op.groups);
      lost_ = tile(core, "lost groups", op.tile, op.groups);
      taken_ = tile(core, "taken group", op.tile, op.groups);
      groups_ = tile(core, "numbers of groups", op.tile, op.groups, DType::i32);
      group_ = tile(core, "a group", op.tile, op.of_group());
      best_ = tile(core, "its best", op.tile, op.of_group());
      within_ = tile(core, "numbers within", op.tile, op.of_group(), DType::i32);
      members_ = tile(core, "members", 1, op.of_group(), DType::i32);
      core.viota(groups_, {});
      core.viota(within_, {});
    }
  }
  ~Choose() {
    if (bias_ && !core_.unwinding()) bias_->release();
  }

  void run(index first, index last) {
    const Tensor counts = counts_.acquire().slice(0, 1, 0, op_.experts());
    core_.vfill(counts, 0);
    for (index t = first; t < last; t += op_.tile) {
      used_ = std::min(op_.tile, last - t);
      score(t);
      if (op_.groups_kept < op_.groups) keep_groups();
      take_largest(t, counts);
    }
    counts_.commit();
    core_.copy(op_.counts.row_slice(core_.vector_worker(), 1), counts_.wait().slice(0, 1, 0, op_.experts()));
    counts_.release();
  }

 private:
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {op_.tile, 1}, DType::f32); }
  Tensor of(const Tensor& tile, index columns) const { return tile.slice(0, used_, 0, columns); }
  Tensor of_experts(const Tensor& tile) const { return of(tile, op_.experts()); }
  void hold_finite(const Tensor& x) {  // max gives its second operand where one is NaN
    core_.vscalar(VectorOp::max, x, x, -most_of_f32);
    core_.vscalar(VectorOp::min, x, x, most_of_f32);
  }

  void score(index t) {
    const Tensor choice = of_experts(tiles_.choice), score = of_experts(score_), mask = of_experts(tiles_.mask);
    core_.copy(by_axes(of_experts(logits_.acquire())), op_.logits.slice(0, t, used_));
    logits_.commit();
    core_.vcast(choice, of_experts(logits_.wait()));
    logits_.release();
    core_.vcompare(Compare::equal, mask, choice, choice);
    core_.vreduce(VectorOp::reduce_min, of(sound_, 1), mask);
    hold_finite(choice);
    core_.vcast(score, choice);
    const Tensor value = of(value_, 1);
    if (op_.score == MoeScore::softmax) {
      core_.vreduce(VectorOp::reduce_max, value, score);
      core_.vbinary(VectorOp::sub, score, score, value);
      core_.vunary(VectorOp::exp, score, score);
      core_.vreduce(VectorOp::reduce_sum, value, score);
      core_.vbinary(VectorOp::div, score, score, value);
    } else if (op_.score == MoeScore::sigmoid) {
      rows::sigmoid(core_, score, mask);
    }
    if (!op_.biased) return;
    core_.vbinary(VectorOp::add, choice, score, bias_row_);
    hold_finite(choice);
  }

  // The place of the largest in each row; it is gone then.
  void take(const Tensor& values, const Tensor& numbers, const Tensor& mask, const Tensor& value, const Tensor& place) {
    core_.vargmax(value, place, values);
    core_.vcompare(Compare::equal, mask, numbers, place);
    core_.vselect(values, mask, gone_, values);
  }

  // Where choices are logits, the sum is one of scores, whose two largest belong to the two largest choices.
  void keep_groups() {
    const Tensor value = of(value_, 1), second = of(second_, 1), place = of(place_, 1);
    const Tensor from = of_experts(op_.sums_two && !op_.biased ? score_ : tiles_.choice);
    const Tensor group = of(group_, op_.of_group()), members = members_.slice(0, 1, 0, op_.of_group());
    for (index g = 0; g < op_.groups; ++g) {
      const Tensor worth = as_column(of_groups_, g, used_);
      core_.viota(members, {.first = static_cast<double>(g * op_.of_group())});
      core_.vgather(group, from, members);
      if (op_.sums_two) {
        take(group, of(within_, op_.of_group()), of(best_, op_.of_group()), value, place);
        core_.vreduce(VectorOp::reduce_max, second, group);
        core_.vbinary(VectorOp::add, worth, value, second);
        hold_finite(worth);
      } else {
        core_.vreduce(VectorOp::reduce_max, worth, group);
      }
    }
    const Tensor values = of(values_, op_.groups), lost = of(lost_, op_.groups), taken = of(taken_, op_.groups);
    core_.vtranspose(values, of_groups_.slice(0, op_.groups, 0, used_));
    core_.vfill(lost, gone);
    for (index kept = 0; kept < op_.groups_kept; ++kept) {
      take(values, of(groups_, op_.groups), taken, value, place);
      core_.vselect(lost, taken, zero_, lost);
    }
    const Tensor choice = of_experts(tiles_.choice);
    core_.vgrouped(VectorOp::add, choice, choice, lost, op_.of_group());
  }

  void take_largest(index t, const Tensor& counts) {
    const index top_k = op_.top_k();
    const Tensor choice = of_experts(tiles_.choice), mask = of_experts(tiles_.mask);
    const Tensor spare = spare_.slice(0, 1, 0, op_.experts());
    for (index j = 0; j < top_k; ++j) {
      take(choice, of_experts(tiles_.experts), mask, of(value_, 1), as_column(tiles_.places, j, used_));
      core_.vreduce_columns(VectorOp::column_sum, spare, mask);
      core_.vbinary(VectorOp::add, counts, counts, spare);
    }
    const auto [to_weights, to_ids] = results_.acquire();
    const Tensor weights = of(to_weights, top_k), ids = of(to_ids, top_k), sum = of(value_, 1);
    core_.vtranspose(ids, tiles_.places.slice(0, top_k, 0, used_));
    core_.vgather(weights, of_experts(score_), ids);
    if (op_.score == MoeScore::softmax_of_chosen) {
      core_.vreduce(VectorOp::reduce_max, sum, weights);
      core_.vbinary(VectorOp::sub, weights, weights, sum);
      core_.vunary(VectorOp::exp, weights, weights);
    }
    if (op_.renormalize || op_.score == MoeScore::softmax_of_chosen) {
      core_.vreduce(VectorOp::reduce_sum, sum, weights);
      core_.vscalar(VectorOp::add, sum, sum, 1e-20f);
      core_.vbinary(VectorOp::div, weights, weights, sum);
    }
    core_.vscalar(VectorOp::mul, weights, weights, op_.scale);
    core_.vselect(weights, of(sound_, 1), weights, nan_);
    results_.commit();
    const auto [from_weights, from_ids] = results_.wait();
    core_.copy(op_.weights.slice(0, t, used_), by_axes(of(from_weights, top_k)));
    core_.copy(op_.ids.slice(0, t, used_), by_axes(of(from_ids, top_k)));
    results_.release();
  }

  Core& core_;
  const RoutingOperands& op_;
  const RoutingTiles& tiles_;
  Ring logits_;
  TupleRing<2> results_;
  Ring counts_;
  std::optional<Ring> bias_;
  const Tensor score_, spare_, sound_, value_, second_, place_, gone_, zero_, nan_;
  Tensor bias_row_, of_groups_, values_, lost_, taken_, groups_, group_, best_, within_, members_;
  index used_ = 0;  // tokens of the tile that is worked on
};

class Place {
 public:
  Place(Core& core, const RoutingOperands& op, const RoutingTiles& tiles)
      : core_(core),
        op_(op),
        tiles_(tiles),
        counts_(core.ring("counts of a unit", Space::vector, wide(1, op.experts()), DType::f32,
                          {2, Pipe::load_vector, Pipe::vector})),
        ends_(core.ring("ends", Space::vector, wide(1, op.experts()), DType::i32, {1, Pipe::vector, Pipe::store})),
        ids_(core.ring("ids again", Space::vector, wide(op.tile, op.top_k()), DType::i32,
                       {2, Pipe::load_vector, Pipe::vector})),
        rows_(core.ring("rows", Space::vector, wide(op.tile, op.top_k()), DType::i32, {1, Pipe::vector, Pipe::store})),
        next_(tile(core, "next rows", op.tile, op.top_k())),
        base_(row("rows before")),
        total_(row("rows of experts")),
        running_(row("running sum")),
        shifted_(row("shifted sum")),
        from_(tile(core, "shift", 1, op.experts(), DType::i32)) {}

  void run(index first, index last) {
    find_base();
    const Tensor base = of_experts(base_);
    for (index t = first; t < last; t += op_.tile) {
      const index used = std::min(op_.tile, last - t), top_k = op_.top_k();
      const auto part = [&](const Tensor& tile, index columns) { return tile.slice(0, used, 0, columns); };
      core_.copy(by_axes(part(ids_.acquire(), top_k)), op_.ids.slice(0, t, used));
      ids_.commit();
      const Tensor ids = part(ids_.wait(), top_k), chosen = part(tiles_.choice, op_.experts());
      mark(ids, chosen, part(tiles_.experts, op_.experts()), part(tiles_.mask, op_.experts()));
      for (index r = 0; r < used; ++r) {
        core_.vgather(next_.slice(r, 1, 0, top_k), base, ids.row_slice(r, 1));
        core_.vbinary(VectorOp::add, base, base, chosen.row_slice(r, 1));
      }
      ids_.release();
      core_.vcast(part(rows_.acquire(), top_k), part(next_, top_k));
      rows_.commit();
      const Tensor rows = part(rows_.wait(), top_k);
      core_.copy(op_.rows.slice(0, t, used), by_axes(rows));
      name_tokens(rows, t);
      rows_.release();
    }
  }

 private:
  Tensor row(const char* name) { return tile(core_, name, 1, op_.experts()); }
  Tensor of_experts(const Tensor& row) const { return row.slice(0, 1, 0, op_.experts()); }

  // Rows of earlier experts, and of the same expert in earlier units: where this unit's begin.
  void find_base() {
    const Tensor base = of_experts(base_), total = of_experts(total_), running = of_experts(running_);
    core_.vfill(base, 0);
    core_.vfill(total, 0);
    for (index unit = 0; unit < core_.vector_workers(); ++unit) {
      core_.copy(of_experts(counts_.acquire()), op_.counts.row_slice(unit, 1));
      counts_.commit();
      const Tensor counts = of_experts(counts_.wait());
      if (unit < core_.vector_worker()) core_.vbinary(VectorOp::add, base, base, counts);
      core_.vbinary(VectorOp::add, total, total, counts);
      counts_.release();
    }
    // A running sum by doubling: what lies before the first expert is picked as 0.
    core_.vcast(running, total);
    for (index step = 1; step < op_.experts(); step *= 2) {
      core_.viota(of_experts(from_), {.first = -static_cast<double>(step)});
      core_.vgather(of_experts(shifted_), running, of_experts(from_));
      core_.vbinary(VectorOp::add, running, running, of_experts(shifted_));
    }
    core_.vbinary(VectorOp::add, base, base, running);
    core_.vbinary(VectorOp::sub, base, base, total);
    if (core_.vector_worker() != 0) return;
    core_.vcast(of_experts(ends_.acquire()), running);
    ends_.commit();
    core_.copy(op_.expert_ends.split(0, op_.experts()), by_axes(of_experts(ends_.wait())));
    ends_.release();
  }

  // 1 for each expert of a token.
  void mark(const Tensor& ids, const Tensor& chosen, const Tensor& experts, const Tensor& mask) {
    core_.vtranspose(tiles_.places.slice(0, op_.top_k(), 0, ids.rows()), ids);
    core_.vfill(chosen, 0);
    for (index j = 0; j < op_.top_k(); ++j) {
      core_.vcompare(Compare::equal, mask, experts, as_column(tiles_.places, j, ids.rows()));
      core_.vbinary(VectorOp::add, chosen, chosen, mask);
    }
  }

  void name_tokens(const Tensor& rows, index t) {
    core_.set(Pipe::vector, Pipe::scalar, 0);
    core_.wait(Pipe::vector, Pipe::scalar, 0);
    const Tensor tokens = op_.row_tokens.matrix();
    for (index r = 0; r < rows.rows(); ++r)
      for (index j = 0; j < op_.top_k(); ++j)
        core_.scalar_write(tokens, 0, static_cast<index>(core_.scalar_read(rows, r, j)), static_cast<double>(t + r));
  }

  Core& core_;
  const RoutingOperands& op_;
  const RoutingTiles& tiles_;
  Ring counts_, ends_, ids_, rows_;
  const Tensor next_, base_, total_, running_, shifted_, from_;
};

void route(Core& core, const RoutingOperands& op) {
  const index worker = core.vector_worker(), workers = core.vector_workers();
  const index first = op.tokens() * worker / workers, last = op.tokens() * (worker + 1) / workers;
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const RoutingTiles tiles(core, op);
  Choose(core, op, tiles).run(first, last);
  core.sync_all();
  Place(core, op, tiles).run(first, last);
}

}  // namespace

Status declined(const Device& device, const MoeRouting<Host>& op) {
  if (tokens_that_fit(device, op) < 1)
    return unsupported("more experts than fit into the vector unit's memory are the host's");
  if (op.weights.size() > most_rows) return unsupported("more than 2^24 rows are the host's");
  return {};
}

Program program(GlobalMemory& memory, const MoeRouting<Host>& op, const Choices&) {
  const index tokens = op.logits.extents[0], experts = op.logits.extents[1];
  constexpr index tokens_of_a_unit = 4;
  const index units = memory.device().vector_units();
  const std::uint32_t cores = cores_for(tokens, units * tokens_of_a_unit, memory.cores());
  const index workers = index{cores} * units;
  RoutingOperands operands{.logits = memory.bind("logits", op.logits),
                           .bias = {},
                           .weights = memory.bind("weights", op.weights, Use::out),
                           .ids = memory.bind("ids", op.ids, Use::out),
                           .rows = memory.bind("rows", op.rows, Use::out),
                           .row_tokens = memory.bind("row_tokens", op.row_tokens, Use::out),
                           .expert_ends = memory.bind("expert_ends", op.expert_ends, Use::out),
                           .counts = memory.workspace("counts", {workers, experts}, DType::f32),
                           .biased = op.bias.present(),
                           .score = op.score,
                           .groups = op.groups,
                           .groups_kept = op.groups_kept,
                           .sums_two = op.group_score == MoeGroupScore::sum_of_two,
                           .renormalize = op.renormalize,
                           .scale = op.scale,
                           .tile = std::clamp<index>(ceil_div(tokens, workers), 1,
                                                     std::min(largest_tile, tokens_that_fit(memory.device(), op)))};
  if (operands.biased) operands.bias = memory.bind("bias", op.bias);
  return {.body = [operands](Core& core) { route(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.logits, op.bias, op.weights, op.ids, op.rows, op.row_tokens,
                                              op.expert_ends)},
          .launch = {.cores = cores}};
}

template struct Operator<MoeRouting<Host>>;

}  // namespace inlay::npu
