// What the matrix unit reads, on its way into staging memory.
//
// K or V: parts of the tiles, as far ahead as the ring is long. The load makes blocks of rows; or where that is another
// unit's pass which the load waits for, the vector unit packs them, one part ahead of the products. So it does where
// the matrix unit takes columns: it transposes V once for all products of a part.
//
//   load_vector  rows    vector  fractal, or V's transpose    feed
//
// Where the way into staging is slow to change rows into blocks and a prompt loads each tile many times, the vector
// units make blocks of the whole cache before:
//
//   [sequence, head of the cache]   keys that are seen, as one fractal tensor of the sequence's length
//
// q of a unit is made by the vector units while they work on the unit before it. In f32 or bf16 each row is divided by
// its largest, f = max |q|,
//
//   high = f16(q / f * below_one)    low = f16(q / f - high)    factor = f * scale
//
// 2^-21 of the largest is left out, and nothing overflows, whatever the size of q. For scores in f16 it is
// f16(scale * q), and the factor 1. What is f16 already is taken as it is where it can be loaded so.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/attention/plan.hpp"
#include "npu_kernels/attention/transport.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

// All vector units share the keys; the caller waits for the others.
inline void make_cache_blocks(Core& core, const AttentionCall& p, const CacheBlocks& to) {
  const index tokens = to.tokens, dim = std::max(p.k.dim, p.v.dim);
  Ring in = core.ring("rows", Space::vector, {tokens, dim}, DType::f16, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("blocks", Space::vector, {tokens, dim}, DType::f16, {2, Pipe::vector, Pipe::store}, Layout::nz);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  index turn = 0;
  for (index b = 0; b < static_cast<index>(p.sequences.size()); ++b) {
    const AttentionSequence& s = p.sequences[static_cast<std::size_t>(b)];
    const index end = seen_keys(p, s);
    for (index first = 0; first < end; first += tokens)
      for (index head = 0; head < p.kv_heads(); ++head)
        for (const Cached* cached : {&p.bound.k, &p.bound.v}) {
          if (turn++ % core.vector_workers() != core.vector_worker()) continue;
          const index count = std::min(tokens, end - first);
          TokenRange range{&s, head, first, count, nullptr};
          const std::vector<index> blocks = blocks_of(core, p, range);
          range.blocks = &blocks;
          const auto used = [&](const Tensor& tile) { return tile.slice(0, count, 0, cached->dim); };
          const Tensor slot = used(in.acquire());
          for_rows(p, *cached, range, [&](index at, const NdTensor& rows) {
            core.copy(slot.row_slice(at, rows.extent(0)), rows.at(1, 0).matrix());
          });
          in.commit();
          core.vpack_nz(used(out.acquire()), used(in.wait()));
          in.release();
          out.commit();
          const Tensor all = to.of(cached == &p.bound.k ? to.k : to.v, p, b, head, cached->dim);
          core.copy(all.row_slice(first, count), used(out.wait()));
          out.release();
        }
  }
}

class PartLoads {
 public:
  // From rows, or from `blocks` of the plan's cache once they are there.
  PartLoads(Core& core, const AttentionCall& problem, const AttentionPlan& plan, const Cached& cached, const char* name,
            Repack repack, const Tensor& blocks)
      : core_(core),
        problem_(problem),
        plan_(plan),
        cached_(cached),
        repack_(repack),
        blocks_(blocks),
        rows_(plan.tiles.part()),
        ring_(core.ring(name, Space::staging,
                        repack == Repack::transposed ? Shape{cached.dim, rows_} : Shape{rows_, cached.dim}, DType::f16,
                        {2, repack == Repack::by_load ? Pipe::load : Pipe::vector, Pipe::feed},
                        repack == Repack::transposed ? Layout::nd : Layout::nz)) {
    if (repack == Repack::by_load) return;
    lines_.emplace(core.ring(std::string(name) + " in rows", Space::vector,
                             {rows_, columns_of_lines(core.device(), cached.dim)}, DType::f16,
                             {2, Pipe::load_vector, Pipe::vector}));
  }
  // The tiles to come; loads what there is room for.
  void start(const std::vector<TileWork>& works) {
    for (const TileWork& work : works)
      for (index at = 0; at < work.tile.count; at += rows_) {
        const index first = work.tile.first + at, count = std::min(rows_, work.tile.count - at);
        counts_.push_back(count);
        // Tiles of one part: a part has been used before the next one is asked for.
        const bool again = plan_.tiles.parts == 1 && !all_.empty() && all_.back().first == first &&
                           all_.back().count >= count && all_.back().work->unit->sequence == work.unit->sequence &&
                           all_.back().work->unit->kv_head == work.unit->kv_head;
        if (again)
          ++all_.back().uses;
        else
          all_.push_back({&work, first, count, 1});
      }
    fill();
    if (lines_ && !all_.empty()) convert();
  }
  void take_blocks() { ready_ = blocks_.present(); }
  // [tokens, dim] of the next part; what the unit before had of the same keys is still there.
  Tensor wait() {
    if (waits_ == 0) tile_ = repack_ == Repack::transposed ? ring_.wait().transposed() : ring_.wait();
    if (++waits_ == all_[waited_].uses) ++waited_, waits_ = 0;
    return tile_.row_slice(0, counts_[use_++]);
  }
  void release() {  // and loads the next
    if (++releases_ < all_[released_].uses) return;
    releases_ = 0;
    ring_.release();
    ++released_;
    if (lines_ && made_ < std::min(all_.size(), waited_ + 1)) return convert();
    fill();
  }

 private:
  void fill() {
    const std::size_t free = lines_ ? made_ + lines_->depth() : released_ + ring_.depth();
    for (; loaded_ < std::min(all_.size(), free); ++loaded_) load(loaded_);
  }
  void load(std::size_t part) {
    const auto& [work, first, count, uses] = all_[part];
    TokenRange range{&problem_.sequence(*work->unit), work->unit->kv_head, first, count, nullptr};
    Ring& to = lines_ ? *lines_ : ring_;
    const Tensor tile = to.acquire();
    if (ready_) {
      const Tensor all = plan_.cache.of(blocks_, problem_, work->unit->sequence, range.kv_head, cached_.dim);
      core_.copy(tile.row_slice(0, count), all.row_slice(first, count));
    } else if (lines_ || core_.runs(Pipe::load)) {  // else the table is nobody's to read
      const std::vector<index> blocks = blocks_of(core_, problem_, range);
      range.blocks = &blocks;
      for_rows(problem_, cached_, range, [&](index at, const NdTensor& rows) {
        const Tensor slot = tile.slice(at, rows.extent(0), 0, cached_.dim), from = rows.at(1, 0).matrix();
        lines_ ? core_.copy(slot, from) : core_.nd2nz(slot, from);
      });
    }
    to.commit();
  }
  void convert() {  // the next rows
    const index count = all_[made_++].count;
    const Tensor slot = ring_.acquire(), rows = lines_->wait().slice(0, count, 0, cached_.dim);
    if (repack_ == Repack::transposed)
      core_.vtranspose(slot.slice(0, cached_.dim, 0, count), rows);
    else
      core_.vpack_nz(slot.row_slice(0, count), rows);
    lines_->release();
    ring_.commit();
    fill();
  }

  Core& core_;
  const AttentionCall& problem_;
  const AttentionPlan& plan_;
  const Cached& cached_;
  const Repack repack_;
  const Tensor blocks_;
  const index rows_;  // of a part
  Ring ring_;
  std::optional<Ring> lines_;  // rows on their way to the vector unit
  struct Part {
    const TileWork* work;
    index first, count;  // keys
    index uses;          // by works one after the other, with as many keys or fewer
  };
  std::vector<Part> all_;
  bool ready_ = false;  // blocks are there
  std::size_t loaded_ = 0, made_ = 0, waited_ = 0, released_ = 0;
  index waits_ = 0, releases_ = 0;  // of the part that is used
  std::vector<index> counts_;       // keys of each use
  std::size_t use_ = 0;
  Tensor tile_;
};

class Queries {
 public:
  Queries(Core& core, const AttentionCall& problem, const AttentionPlan& plan)
      : core_(core),
        problem_(problem),
        plan_(plan),
        rows_(plan.tiles.rows),
        dim_(problem.k.dim),
        direct_(left_is_vectors(core.device())),
        halves_(problem.q.dtype != DType::f16 && !plan.numbers.f16_scores) {
    const index block = std::max<index>(plan.tiles.block, 2), columns = std::max<index>(dim_, 2);
    if (plan.q_as_it_is) {
      staged_.emplace(
          core.ring("q", Space::staging, {rows_, columns}, DType::f16, {2, Pipe::load, Pipe::feed}, Layout::nz));
      return;
    }
    // As weights are, but for pieces that are multiplied together: rows between them would be read, which nothing has
    // written.
    const index step = plan.numbers.q_pieces == 1 ? std::max<index>(core.device().matrix.m_granule, 1) : 1;
    made_.emplace(core, "q in pieces",
                  ToLeft::Form{.pieces = plan.numbers.q_pieces,
                               .rows = rows_,
                               .columns = columns,
                               .block = block,
                               .staged_rows = round_up(rows_, step),
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
  // The vector units' part, block by block between their other work: begin, advance for a block, finish with those
  // that are left. Two units may be made that no product has read.
  void begin(const TileWork& work) {
    if (!made_) return;
    making_ = &work;
    made_->open();
    TileWork whole = work;
    whole.causal_trim = false;
    blocks_ = row_blocks(problem_, plan_.tiles, whole);
    loaded_ = done_ = 0;
    for (std::uint32_t i = 0; i < in_->depth(); ++i) load_block();
  }
  void advance() {
    if (making_ == nullptr || done_ == blocks_.size()) return;
    const RowBlock& block = blocks_[done_++];
    made_->open({});
    std::array<Tensor, 2> pieces;
    for (index p = 0; p < plan_.numbers.q_pieces; ++p)
      pieces[static_cast<std::size_t>(p)] = made_->piece(*making_, block, p, dim_);
    const Tensor factor = halves_ ? factors_[slot_of(*making_)].row_slice(block.first, block.rows) : Tensor{};
    convert(in_->wait().slice(0, block.rows, 0, dim_), pieces, factor);
    in_->release();
    load_block();
    made_->close(*making_, block, dim_);
  }
  void finish() {
    if (making_ == nullptr) return;
    while (done_ < blocks_.size()) advance();
    made_->close();
    making_ = nullptr;
  }
  // How it comes to the matrix unit: [pieces * rows, dim].
  void load(const TileWork& work) {
    if (staged_) {
      load_rows(staged_->acquire().slice(0, rows_, 0, dim_), *work.unit);
      return staged_->commit();
    }
    if (direct_) return;
    made_->wait_tile();
    made_->stage(0, work.unit->rows(), 0, dim_);
    made_->release_tile();
  }
  Tensor wait() {
    if (staged_) return staged_->wait();
    if (direct_) made_->wait_tile();
    return made_->wait(0, rows_, 0, dim_);
  }
  void release() {
    if (staged_) return staged_->release();
    direct_ ? made_->release_tile() : made_->release();
  }
  // Of a unit's rows, all of this vector unit's; none where scores are scaled alike.
  bool has_factors() const { return halves_; }
  Tensor factor(const TileWork& work) const { return factors_[slot_of(work)].row_slice(0, work.mine.count); }

 private:
  static constexpr std::size_t ahead = 3;  // units whose factors are kept
  static std::size_t slot_of(const TileWork& work) { return static_cast<std::size_t>(work.turn) % ahead; }
  void load_block() {
    if (loaded_ == blocks_.size()) return;
    const RowBlock& block = blocks_[loaded_++];
    const Tensor slot = in_->acquire().slice(0, block.rows, 0, dim_);
    core_.copy(by_axes(slot).split(0, block.unit.heads), problem_.rows(problem_.bound.q, block.unit));
    in_->commit();
  }
  // Rows (query, head) of q into blocks: a transfer for each query, whose heads are rows side by side, or where these
  // are changed into blocks slowly, or latency would count, one of all, in runs of a block's width.
  void load_rows(const Tensor& slot, const QueryTile& unit) {
    const Device& device = core_.device();
    const Path& path = *device.path(Space::global, Space::staging);
    const index block = device.fractal_block(DType::f16);
    const double bytes = 2.0 * static_cast<double>(unit.heads * dim_);
    const double under_way = device.queues[device.queue_of[static_cast<std::size_t>(Pipe::load)]].outstanding;
    const bool waits = path.latency / under_way > 1.25 * bytes / path.bytes_per_cycle;
    const NdTensor rows = problem_.rows(problem_.bound.q, unit);  // [query, head, dim]
    if (unit.queries > 1 && (waits || !rows_are_aligned(device, unit.heads)) && dim_ % block == 0) {
      const NdTensor blocks = by_axes(slot.row_slice(0, unit.rows()));  // [block, row, column of the block]
      return core_.copy(blocks.split(1, unit.heads), rows.split(2, block).permuted({2, 0, 1, 3}));
    }
    for (index i = 0; i < unit.queries; ++i)
      core_.nd2nz(slot.row_slice(i * unit.heads, unit.heads), rows.at(0, i).matrix());
  }
  // Rows of q, and of `pieces`, in f16.
  void convert(const Tensor& q, const std::array<Tensor, 2>& pieces, const Tensor& factor) {
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

  Core& core_;
  const AttentionCall& problem_;
  const AttentionPlan& plan_;
  const index rows_, dim_;
  const bool direct_, halves_;
  std::optional<Ring> staged_;  // of q as it is
  std::optional<ToLeft> made_;  // else: of what is made
  std::optional<Ring> in_;      // from these rows
  Tensor wide_, work_, peak_, inverse_;
  std::array<Tensor, ahead> factors_;
  const TileWork* making_ = nullptr;  // the unit that is being made
  std::vector<RowBlock> blocks_;
  std::size_t loaded_ = 0, done_ = 0;
};

}  // namespace inlay::npu
