// The second pass of moe_routing: rows sorted by expert, from the counts of all units.
#pragma once

#include "npu_kernels/moe_routing/tiles.hpp"

namespace inlay::npu {

class MoePlace {
 public:
  MoePlace(Core& core, const MoeRoutingOperands& op, const MoeRoutingTiles& tiles)
      : core_(core),
        op_(op),
        tiles_(tiles),
        counts_(core.ring("counts of a unit", Space::vector, moe_wide(1, op.experts()), DType::f32,
                          {2, Pipe::load_vector, Pipe::vector})),
        ends_(core.ring("ends", Space::vector, moe_wide(1, op.experts()), DType::i32, {1, Pipe::vector, Pipe::store})),
        ids_(core.ring("ids again", Space::vector, moe_wide(op.tile, op.top_k()), DType::i32,
                       {2, Pipe::load_vector, Pipe::vector})),
        rows_(core.ring("rows", Space::vector, moe_wide(op.tile, op.top_k()), DType::i32,
                        {1, Pipe::vector, Pipe::store})),
        numbers_(core.ring("tokens", Space::vector, moe_wide(op.tile, 1), DType::i32, {1, Pipe::vector, Pipe::store})),
        next_(moe_tile(core, "next rows", op.tile, op.top_k())),
        base_(row("rows before")),
        total_(row("rows of experts")),
        running_(row("running sum")),
        shifted_(row("shifted sum")),
        from_(moe_tile(core, "shift", 1, op.experts(), DType::i32)) {}

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
  Tensor row(const char* name) { return moe_tile(core_, name, 1, op_.experts()); }
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
      core_.vcompare(Compare::equal, mask, experts, moe_column(tiles_.places, j, ids.rows()));
      core_.vbinary(VectorOp::add, chosen, chosen, mask);
    }
  }

  // Element by element: neighbours are other units', and no line of a scalar unit's cache.
  void name_tokens(const Tensor& rows, index t) {
    core_.viota(numbers_.acquire().slice(0, rows.rows(), 0, 1), {.first = static_cast<double>(t), .row_step = 1});
    numbers_.commit();
    core_.set(Pipe::vector, Pipe::scalar, 0);
    core_.wait(Pipe::vector, Pipe::scalar, 0);
    const Tensor numbers = numbers_.wait();
    for (index r = 0; r < rows.rows(); ++r)
      for (index j = 0; j < op_.top_k(); ++j)
        core_.copy(op_.row_tokens.slice(0, static_cast<index>(core_.scalar_read(rows, r, j)), 1),
                   by_axes(numbers.slice(r, 1, 0, 1)).at(0, 0));
    numbers_.release();
  }

  Core& core_;
  const MoeRoutingOperands& op_;
  const MoeRoutingTiles& tiles_;
  Ring counts_, ends_, ids_, rows_, numbers_;
  const Tensor next_, base_, total_, running_, shifted_, from_;
};

}  // namespace inlay::npu
