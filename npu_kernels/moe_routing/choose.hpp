// The first pass of moe_routing: scores, choices, weights, and how many tokens of this unit each expert has.
#pragma once

#include <optional>

#include "npu_kernels/moe_routing/tiles.hpp"
#include "npu_kernels/rows/sigmoid.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

class MoeChoose {
 public:
  MoeChoose(Core& core, const MoeRoutingOperands& op, const MoeRoutingTiles& tiles)
      : core_(core),
        op_(op),
        tiles_(tiles),
        logits_(core.ring("logits", Space::vector, moe_wide(op.tile, op.experts()), op.logits.first.dtype,
                          {2, Pipe::load_vector, Pipe::vector})),
        results_(
            core.ring<2>("results",
                         {TileForm{"weights", Space::vector, moe_wide(op.tile, op.top_k()), DType::f32, Layout::nd},
                          TileForm{"ids", Space::vector, moe_wide(op.tile, op.top_k()), DType::i32, Layout::nd}},
                         {1, Pipe::vector, Pipe::store})),
        counts_(
            core.ring("counts", Space::vector, moe_wide(1, op.experts()), DType::f32, {1, Pipe::vector, Pipe::store})),
        score_(moe_tile(core, "scores", op.tile, op.experts())),
        spare_(moe_tile(core, "counts of a tile", 1, op.experts())),
        sound_(column("sound")),
        value_(column("value")),
        second_(column("second value")),
        place_(core.alloc("place", Space::vector, {op.tile, 1}, DType::i32)),
        gone_(rows::constant(core, "minus infinity", moe_gone)),
        zero_(rows::constant(core, "zero", 0)),
        nan_(rows::constant(core, "NaN", std::numeric_limits<float>::quiet_NaN())) {
    if (op.biased) {
      bias_.emplace(core.ring("bias", Space::vector, moe_wide(1, op.experts()), DType::f32,
                              {1, Pipe::load_vector, Pipe::vector}));
      core.copy(by_axes(bias_->acquire().slice(0, 1, 0, op.experts())), op.bias.split(0, op.experts()));
      bias_->commit();
      bias_row_ = bias_->wait().slice(0, 1, 0, op.experts());
    }
    if (op.score == MoeScore::sparsemixer)
      shares_ = moe_tile(core, "shares, a row for each choice", std::max<index>(2, op.top_k()), op.tile);
    if (op.groups_kept < op.groups) {
      of_groups_ = moe_tile(core, "values of groups, a row each", std::max<index>(2, op.groups), op.tile);
      values_ = moe_tile(core, "values of groups", op.tile, op.groups);
      lost_ = moe_tile(core, "lost groups", op.tile, op.groups);
      taken_ = moe_tile(core, "taken group", op.tile, op.groups);
      groups_ = moe_tile(core, "numbers of groups", op.tile, op.groups, DType::i32);
      group_ = moe_tile(core, "a group", op.tile, op.of_group());
      best_ = moe_tile(core, "its best", op.tile, op.of_group());
      within_ = moe_tile(core, "numbers within", op.tile, op.of_group(), DType::i32);
      members_ = moe_tile(core, "members", 1, op.of_group(), DType::i32);
      core.viota(groups_, {});
      core.viota(within_, {});
    }
  }
  ~MoeChoose() {
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
    core_.vscalar(VectorOp::max, x, x, -moe_most);
    core_.vscalar(VectorOp::min, x, x, moe_most);
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
      const Tensor worth = moe_column(of_groups_, g, used_);
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
    core_.vfill(lost, moe_gone);
    for (index kept = 0; kept < op_.groups_kept; ++kept) {
      take(values, of(groups_, op_.groups), taken, value, place);
      core_.vselect(lost, taken, zero_, lost);
    }
    const Tensor choice = of_experts(tiles_.choice);
    core_.vgrouped(VectorOp::add, choice, choice, lost, op_.of_group());
  }

  // The share of the largest choice among those that are left and near it. Those that were taken are at minus infinity.
  void weigh_near(const Tensor& share) {
    const Tensor choice = of_experts(tiles_.choice), bound = of_experts(score_), below = of_experts(tiles_.mask);
    const Tensor largest = of(value_, 1);
    core_.vreduce(VectorOp::reduce_max, largest, choice);
    core_.vbinary(VectorOp::sub, below, choice, largest);
    core_.vunary(VectorOp::abs, bound, choice);
    core_.vbinary(VectorOp::max, bound, bound, largest);
    core_.vscalar(VectorOp::mul, bound, bound, -2 * op_.jitter);
    core_.vcompare(Compare::less, bound, below, bound);
    core_.vunary(VectorOp::exp, below, below);
    core_.vselect(below, bound, zero_, below);
    core_.vreduce(VectorOp::reduce_sum, share, below);
    core_.vunary(VectorOp::recip, share, share);
  }

  void take_largest(index t, const Tensor& counts) {
    const index top_k = op_.top_k();
    const Tensor choice = of_experts(tiles_.choice), mask = of_experts(tiles_.mask);
    const Tensor spare = spare_.slice(0, 1, 0, op_.experts());
    for (index j = 0; j < top_k; ++j) {
      if (op_.score == MoeScore::sparsemixer) weigh_near(moe_column(shares_, j, used_));
      take(choice, of_experts(tiles_.experts), mask, of(value_, 1), moe_column(tiles_.places, j, used_));
      core_.vreduce_columns(VectorOp::column_sum, spare, mask);
      core_.vbinary(VectorOp::add, counts, counts, spare);
    }
    const auto [to_weights, to_ids] = results_.acquire();
    const Tensor weights = of(to_weights, top_k), ids = of(to_ids, top_k), sum = of(value_, 1);
    core_.vtranspose(ids, tiles_.places.slice(0, top_k, 0, used_));
    if (op_.score == MoeScore::sparsemixer)
      core_.vtranspose(weights, shares_.slice(0, top_k, 0, used_));
    else
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
  const MoeRoutingOperands& op_;
  const MoeRoutingTiles& tiles_;
  Ring logits_;
  TupleRing<2> results_;
  Ring counts_;
  std::optional<Ring> bias_;
  const Tensor score_, spare_, sound_, value_, second_, place_, gone_, zero_, nan_;
  Tensor bias_row_, of_groups_, values_, lost_, taken_, groups_, group_, best_, within_, members_, shares_;
  index used_ = 0;  // tokens of the tile that is worked on
};

}  // namespace inlay::npu
