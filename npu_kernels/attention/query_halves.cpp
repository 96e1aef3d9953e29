#include "npu_kernels/attention/query_halves.hpp"

#include <algorithm>

#include "npu_kernels/backend/handover.hpp"

namespace inlay::npu {

Queries::Queries(Core& core, const AttentionProblem& problem, const MatrixPlan& plan)
    : core_(core),
      problem_(problem),
      plan_(plan),
      rows_(plan.tiles.rows),
      block_(std::max<index>(plan.tiles.block, 2)),
      flat_(!plan.q_as_it_is && core.device().feeds_are_views() &&
            core.device().same_memory(Space::vector, Space::left)),
      halves_(problem.q.first.dtype != DType::f16 && !plan.narrow) {
  const Shape all{plan.q_pieces * rows_, std::max<index>(problem.k.dim, 2)};
  const Shape tile{block_, all.columns};
  if (!flat_) staged_.emplace(core.ring("q", Space::staging, all, DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
  if (plan.q_as_it_is) return;
  in_.emplace(core.ring("q in rows", Space::vector, tile, problem.q.first.dtype,
                        {problem.slopes.present() ? 1u : 2u, Pipe::load_vector, Pipe::vector}));
  if (flat_) {
    tiles_.emplace(core.ring("q in pieces", Space::vector, all, DType::f16, {2, Pipe::vector, Pipe::feed}));
  } else {
    out_.emplace(core.ring("q in pieces", Space::vector, {plan.q_pieces * block_, all.columns}, DType::f16,
                           {2, Pipe::vector, Pipe::store}));
    through_.emplace(
        workspace_ring(core, "q in global memory", plan.q, plan.q_pieces * rows_, 2, Pipe::store, Pipe::load));
  }
  if (!halves_) return;
  wide_ = core.alloc("q in f32", Space::vector, tile, DType::f32);
  work_ = core.alloc("magnitudes", Space::vector, tile, DType::f32);
  peak_ = core.alloc("peak", Space::vector, {block_, 1}, DType::f32);
  inverse_ = core.alloc("1 / peak", Space::vector, {block_, 1}, DType::f32);
  for (Tensor& factor : factors_) factor = core.alloc("factor", Space::vector, {plan.tiles.most, 1}, DType::f32);
}

void Queries::convert(const Tensor& q, const std::array<Tensor, 2>& pieces, const Tensor& factor) {
  if (q.dtype == DType::f16) return core_.vcast(pieces[0], q);
  if (!halves_) return core_.vscalar(VectorOp::mul, pieces[0], q, plan_.score_scale);
  const auto used = [&](const Tensor& tile) { return tile.slice(0, q.rows(), 0, q.columns()); };
  const Tensor wide = used(wide_), peak = peak_.row_slice(0, q.rows()), inverse = inverse_.row_slice(0, q.rows());
  core_.vcast(wide, q);
  core_.vunary(VectorOp::abs, used(work_), wide);
  core_.vreduce(VectorOp::reduce_max, peak, used(work_));
  core_.vscalar(VectorOp::max, peak, peak, 1e-30f);  // a row of zeros stays one
  core_.vunary(VectorOp::recip, inverse, peak);
  core_.vbinary(VectorOp::mul, wide, wide, inverse);
  core_.vscalar(VectorOp::mul, pieces[0], wide, plan_.q_pieces > 1 ? below_one : 1.0f);
  if (plan_.q_pieces > 1) core_.vbinary(VectorOp::sub, pieces[1], wide, pieces[0]);
  core_.vscalar(VectorOp::mul, factor, peak, plan_.score_scale);
}

void Queries::begin(const KeyWork& work) {
  if (plan_.q_as_it_is) return;
  making_ = &work;
  all_ = flat_ ? tiles_->acquire() : through_->acquire();
  KeyWork whole = work;
  whole.graded = false;
  blocks_ = row_blocks(problem_, plan_.tiles, whole);
  loaded_ = made_ = 0;
  for (std::uint32_t i = 0; i < in_->depth(); ++i) load();
}

void Queries::load() {
  if (loaded_ == blocks_.size()) return;
  const WorkUnit& unit = blocks_[loaded_].unit;
  const Sequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
  const NdTensor rows = problem_.q.at(0, s.q_outer).slice(0, s.q_row + unit.query, unit.queries);
  const Tensor slot = in_->acquire().slice(0, blocks_[loaded_].rows, 0, problem_.k.dim);
  core_.copy(by_axes(slot).split(0, unit.heads), rows.slice(1, unit.head, unit.heads));
  in_->commit();
  ++loaded_;
}

void Queries::advance() {
  if (making_ == nullptr || made_ == blocks_.size()) return;
  const RowBlock& block = blocks_[made_++];
  const index dim = problem_.k.dim, pieces = plan_.q_pieces, first = making_->mine.first + block.first;
  const auto piece_of = [&](const Tensor& tile, index piece, index apart, index row) {
    return tile.slice(piece * apart + row, block.rows, 0, dim);
  };
  const Tensor slot = flat_ ? all_ : out_->acquire();
  std::array<Tensor, 2> made;
  for (index p = 0; p < pieces; ++p)
    made[static_cast<std::size_t>(p)] = flat_ ? piece_of(slot, p, rows_, first) : piece_of(slot, p, block_, 0);
  const Tensor factor = halves_ ? factors_[slot_of(*making_)].row_slice(block.first, block.rows) : Tensor{};
  convert(in_->wait().slice(0, block.rows, 0, dim), made, factor);
  in_->release();
  load();
  if (flat_) return;
  out_->commit();
  const Tensor filled = out_->wait();
  for (index p = 0; p < pieces; ++p) core_.copy(piece_of(all_, p, rows_, first), piece_of(filled, p, block_, 0));
  out_->release();
}

void Queries::finish() {
  if (making_ == nullptr) return;
  while (made_ < blocks_.size()) advance();
  flat_ ? tiles_->commit() : through_->commit();
  making_ = nullptr;
}

bool rows_are_aligned(const Device& device, index heads) {
  return heads * device.fractal_block(DType::f16) * 2 % device.memory(Space::staging).align == 0;
}

bool loads_as_it_is(const Device& device, const AttentionProblem& problem) {
  if (problem.q.first.dtype != DType::f16) return false;
  const bool one =
      std::all_of(problem.sequences.begin(), problem.sequences.end(), [](const Sequence& s) { return s.queries <= 1; });
  return one || problem.k.dim % device.fractal_block(DType::f16) == 0 ||
         (!problem.by_chunks && rows_are_aligned(device, problem.group()));
}

// Rows (query, head) of q into blocks: a transfer for each query, whose heads are rows side by side, or where these are
// changed into blocks slowly, or latency would count, one of all, in runs of a block's width.
void Queries::load_rows(const Tensor& slot, const WorkUnit& unit) {
  const Device& device = core_.device();
  const Sequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
  const Path& path = *device.path(Space::global, Space::staging);
  const index block = device.fractal_block(DType::f16), dim = problem_.k.dim;
  const double bytes = 2.0 * static_cast<double>(unit.heads * dim);
  const double under_way = device.queues[device.queue_of[static_cast<std::size_t>(Pipe::load)]].outstanding;
  const bool waits = path.latency / under_way > 1.25 * bytes / path.bytes_per_cycle;
  const NdTensor rows = problem_.q.at(0, s.q_outer).slice(0, s.q_row + unit.query, unit.queries);
  const NdTensor of_heads = rows.slice(1, unit.head, unit.heads);  // [query, head, dim]
  if (unit.queries > 1 && (waits || !rows_are_aligned(device, unit.heads)) && dim % block == 0) {
    const NdTensor blocks = by_axes(slot.row_slice(0, unit.rows()));  // [block, row, column of the block]
    return core_.copy(blocks.split(1, unit.heads), of_heads.split(2, block).permuted({2, 0, 1, 3}));
  }
  for (index i = 0; i < unit.queries; ++i)
    core_.nd2nz(slot.row_slice(i * unit.heads, unit.heads), of_heads.at(0, i).matrix());
}

void Queries::load(const KeyWork& work) {
  if (flat_) return;
  const WorkUnit& unit = *work.unit;
  const Tensor all = staged_->acquire(), slot = all.slice(0, all.rows(), 0, problem_.k.dim);
  if (plan_.q_as_it_is) {
    load_rows(slot, unit);
  } else {
    const Tensor from = through_->wait();
    for (index p = 0; p < plan_.q_pieces; ++p)
      core_.nd2nz(slot.row_slice(p * rows_, unit.rows()), from.row_slice(p * rows_, unit.rows()));
    through_->release();
  }
  staged_->commit();
}

}  // namespace inlay::npu
