#include "npu_kernels/attention/queries.hpp"

#include <algorithm>

namespace inlay::npu {

Queries::Queries(Core& core, const AttentionCall& problem, const AttentionPlan& plan)
    : core_(core),
      problem_(problem),
      plan_(plan),
      rows_(plan.tiles.rows),
      dim_(problem.k.dim),
      direct_(left_is_vectors(core.device())),
      halves_(problem.q.dtype != DType::f16 && !plan.numbers.f16_scores) {
  const index block = std::max<index>(plan.tiles.block, 2), columns = std::max<index>(dim_, 2);
  const index pieces = plan.numbers.q_pieces;
  if (plan.q_as_it_is) {
    staged_.emplace(
        core.ring("q", Space::staging, {rows_, columns}, DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
    return;
  }
  made_.emplace(core, "q in pieces",
                ToLeft::Form{.pieces = pieces,
                             .rows = rows_,
                             .columns = columns,
                             .block = block,
                             .staged_rows = rows_,
                             .staged_columns = columns,
                             .depth = 2,
                             .packed = false,
                             .in_place = false},
                plan.workspace.q);
  const Shape tile{block, columns};
  in_.emplace(core.ring("q in rows", Space::vector, tile, problem.q.dtype,
                        {problem.alibi_slopes.present() ? 1u : 2u, Pipe::load_vector, Pipe::vector}));
  if (!halves_) return;
  wide_ = core.alloc("q in f32", Space::vector, tile, DType::f32);
  work_ = core.alloc("magnitudes", Space::vector, tile, DType::f32);
  peak_ = core.alloc("peak", Space::vector, {block, 1}, DType::f32);
  inverse_ = core.alloc("1 / peak", Space::vector, {block, 1}, DType::f32);
  for (Tensor& factor : factors_) factor = core.alloc("factor", Space::vector, {plan.tiles.most, 1}, DType::f32);
}

void Queries::convert(const Tensor& q, const std::array<Tensor, 2>& pieces, const Tensor& factor) {
  if (q.dtype == DType::f16) return core_.vcast(pieces[0], q);
  const Numbers& numbers = plan_.numbers;
  if (!halves_) return core_.vscalar(VectorOp::mul, pieces[0], q, numbers.score_scale);
  const auto used = [&](const Tensor& tile) { return tile.slice(0, q.rows(), 0, q.columns()); };
  const Tensor wide = used(wide_), peak = peak_.row_slice(0, q.rows()), inverse = inverse_.row_slice(0, q.rows());
  core_.vcast(wide, q);
  core_.vunary(VectorOp::abs, used(work_), wide);
  core_.vreduce(VectorOp::reduce_max, peak, used(work_));
  core_.vscalar(VectorOp::max, peak, peak, 1e-30f);  // a row of zeros stays one
  core_.vunary(VectorOp::recip, inverse, peak);
  core_.vbinary(VectorOp::mul, wide, wide, inverse);
  core_.vscalar(VectorOp::mul, pieces[0], wide, numbers.q_pieces > 1 ? below_one : 1.0f);
  if (numbers.q_pieces > 1) core_.vbinary(VectorOp::sub, pieces[1], wide, pieces[0]);
  core_.vscalar(VectorOp::mul, factor, peak, numbers.score_scale);
}

void Queries::begin(const TileWork& work) {
  if (!made_) return;
  making_ = &work;
  made_->open();
  TileWork whole = work;
  whole.causal_trim = false;
  blocks_ = row_blocks(problem_, plan_.tiles, whole);
  loaded_ = done_ = 0;
  for (std::uint32_t i = 0; i < in_->depth(); ++i) load_block();
}

void Queries::load_block() {
  if (loaded_ == blocks_.size()) return;
  const RowBlock& block = blocks_[loaded_++];
  const AttentionSequence& s = problem_.sequences[static_cast<std::size_t>(block.unit.sequence)];
  const NdTensor rows = problem_.bound.q.at(0, s.q_outer).slice(0, s.q_row + block.unit.query, block.unit.queries);
  const Tensor slot = in_->acquire().slice(0, block.rows, 0, dim_);
  core_.copy(by_axes(slot).split(0, block.unit.heads), rows.slice(1, block.unit.head, block.unit.heads));
  in_->commit();
}

void Queries::advance() {
  if (making_ == nullptr || done_ == blocks_.size()) return;
  const RowBlock& block = blocks_[done_++];
  made_->open(block, {});
  std::array<Tensor, 2> pieces;
  for (index p = 0; p < plan_.numbers.q_pieces; ++p)
    pieces[static_cast<std::size_t>(p)] = made_->piece(*making_, block, p, dim_);
  const Tensor factor = halves_ ? factors_[slot_of(*making_)].row_slice(block.first, block.rows) : Tensor{};
  convert(in_->wait().slice(0, block.rows, 0, dim_), pieces, factor);
  in_->release();
  load_block();
  made_->close(*making_, block, dim_);
}

void Queries::finish() {
  if (making_ == nullptr) return;
  while (done_ < blocks_.size()) advance();
  made_->close();
  making_ = nullptr;
}

// Rows (query, head) of q into blocks: a transfer for each query, whose heads are rows side by side, or where these are
// changed into blocks slowly, or latency would count, one of all, in runs of a block's width.
void Queries::load_rows(const Tensor& slot, const QueryTile& unit) {
  const Device& device = core_.device();
  const AttentionSequence& s = problem_.sequences[static_cast<std::size_t>(unit.sequence)];
  const Path& path = *device.path(Space::global, Space::staging);
  const index block = device.fractal_block(DType::f16);
  const double bytes = 2.0 * static_cast<double>(unit.heads * dim_);
  const double under_way = device.queues[device.queue_of[static_cast<std::size_t>(Pipe::load)]].outstanding;
  const bool waits = path.latency / under_way > 1.25 * bytes / path.bytes_per_cycle;
  const NdTensor rows = problem_.bound.q.at(0, s.q_outer).slice(0, s.q_row + unit.query, unit.queries);
  const NdTensor of_heads = rows.slice(1, unit.head, unit.heads);  // [query, head, dim]
  if (unit.queries > 1 && (waits || !rows_are_aligned(device, unit.heads)) && dim_ % block == 0) {
    const NdTensor blocks = by_axes(slot.row_slice(0, unit.rows()));  // [block, row, column of the block]
    return core_.copy(blocks.split(1, unit.heads), of_heads.split(2, block).permuted({2, 0, 1, 3}));
  }
  for (index i = 0; i < unit.queries; ++i)
    core_.nd2nz(slot.row_slice(i * unit.heads, unit.heads), of_heads.at(0, i).matrix());
}

void Queries::load(const TileWork& work) {
  if (staged_) {
    load_rows(staged_->acquire().slice(0, rows_, 0, dim_), *work.unit);
    return staged_->commit();
  }
  if (direct_) return;
  made_->wait_tile();
  made_->stage(0, work.unit->rows(), 0, dim_);
  made_->release_tile();
}

Tensor Queries::wait() {
  if (staged_) return staged_->wait();
  if (direct_) made_->wait_tile();
  return made_->wait(0, rows_, 0, dim_);
}

void Queries::release() {
  if (staged_) return staged_->release();
  direct_ ? made_->release_tile() : made_->release();
}

}  // namespace inlay::npu
