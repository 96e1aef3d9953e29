#include "npu_kernels/attention/load.hpp"

#include <algorithm>
#include <string>

namespace inlay::npu {

namespace {

// Rows of K or V to rows of `slot`: move(rows of the slot, rows of the cache).
template <class Move>
void load_rows(const AttentionCall& problem, const Cached& cached, const TokenRange& range, const Tensor& slot,
               Move&& move) {
  const NdTensor& view = cached.of(problem.number_of(*range.sequence));
  for_parts(problem, range, [&](index outer, index row, index at, index n) {
    move(slot.row_slice(at, n), view.at(0, outer).slice(0, row, n).at(1, range.kv_head).at(1, 0).matrix());
  });
}

}  // namespace

void make_cache_blocks(Core& core, const AttentionCall& p, const CacheBlocks& to) {
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
          load_rows(p, *cached, range, used(in.acquire()),
                    [&](const Tensor& slot, const Tensor& rows) { core.copy(slot, rows); });
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

PartLoads::PartLoads(Core& core, const AttentionCall& problem, const AttentionPlan& plan, const Cached& cached,
                     const char* name, Repack repack, const Tensor& blocks)
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

void PartLoads::start(const std::vector<TileWork>& works, TableReads& tables) {
  tables_ = &tables;
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

void PartLoads::fill() {
  const std::size_t free = lines_ ? made_ + lines_->depth() : released_ + ring_.depth();
  for (; loaded_ < std::min(all_.size(), free); ++loaded_) load(loaded_);
}

void PartLoads::convert() {
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

void PartLoads::load(std::size_t part) {
  const auto& [work, first, count, uses] = all_[part];
  const index sequence = work->unit->sequence, kv_head = work->unit->kv_head;
  TokenRange range{&problem_.sequences[static_cast<std::size_t>(sequence)], kv_head, first, count, nullptr};
  if (lines_) {
    range.blocks = &tables_->of(part, range);
    load_rows(problem_, cached_, range, lines_->acquire().slice(0, count, 0, cached_.dim),
              [&](const Tensor& slot, const Tensor& rows) { core_.copy(slot, rows); });
    return lines_->commit();
  }
  const Tensor tile = ring_.acquire();
  if (ready_) {
    const Tensor all = plan_.cache.of(blocks_, problem_, sequence, kv_head, cached_.dim);
    core_.copy(tile.row_slice(0, count), all.row_slice(first, count));
  } else if (core_.runs(Pipe::load)) {  // else the table is nobody's to read
    range.blocks = &tables_->of(part, range);
    load_rows(problem_, cached_, range, tile, [&](const Tensor& slot, const Tensor& rows) { core_.nd2nz(slot, rows); });
  }
  ring_.commit();
}

Tensor PartLoads::wait() {
  if (waits_ == 0) tile_ = repack_ == Repack::transposed ? ring_.wait().transposed() : ring_.wait();
  if (++waits_ == all_[waited_].uses) ++waited_, waits_ = 0;
  return tile_.row_slice(0, counts_[use_++]);
}

void PartLoads::release() {
  if (++releases_ < all_[released_].uses) return;
  releases_ = 0;
  ring_.release();
  ++released_;
  if (lines_ && made_ < std::min(all_.size(), waited_ + 1)) return convert();
  fill();
}

}  // namespace inlay::npu
