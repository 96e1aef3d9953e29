#include "npu_kernels/attention/staged_loads.hpp"

#include <algorithm>

namespace inlay::npu {

const std::vector<index>& TableReads::of(std::size_t part, const TokenRange& range) {
  std::vector<index>& blocks = blocks_[part];
  if (blocks.empty()) blocks = blocks_of(core_, problem_, range);
  return blocks;
}

PartLoads::PartLoads(Core& core, const AttentionProblem& problem, const Cached& cached, const CacheBlocks& cache,
                     const Tensor& blocks, const char* name, const MatrixPlan& plan, bool turned, std::uint32_t depth)
    : core_(core),
      problem_(problem),
      cached_(cached),
      cache_(cache),
      blocks_(blocks),
      rows_(plan.tiles.part()),
      parts_(plan.tiles.parts),
      turned_(turned),
      ring_(core.ring(name, Space::staging, turned ? Shape{cached.dim, rows_} : Shape{rows_, cached.dim}, DType::f16,
                      {depth, plan.makes_blocks || turned ? Pipe::vector : Pipe::load, Pipe::feed},
                      turned ? Layout::nd : Layout::nz)) {
  if (!plan.makes_blocks && !turned) return;
  lines_.emplace(core.ring(std::string(name) + " in rows", Space::vector,
                           {rows_, columns_of_lines(core.device(), cached.dim)}, DType::f16,
                           {depth, Pipe::load_vector, Pipe::vector}));
}

void PartLoads::start(const std::vector<KeyWork>& works, TableReads& tables) {
  tables_ = &tables;
  for (const KeyWork& work : works)
    for (index at = 0; at < work.tile.count; at += rows_) {
      const index first = work.tile.first + at, count = std::min(rows_, work.tile.count - at);
      counts_.push_back(count);
      // Tiles of one part: a part has been used before the next one is asked for.
      const bool again = parts_ == 1 && !all_.empty() && all_.back().first == first && all_.back().count >= count &&
                         all_.back().work->unit->sequence == work.unit->sequence &&
                         all_.back().work->unit->kv_head == work.unit->kv_head;
      if (again)
        ++all_.back().uses;
      else
        all_.push_back({&work, first, count, 1});
    }
  fill();
  if (lines_ && !all_.empty()) make();
}

void PartLoads::fill() {
  const std::size_t free = lines_ ? made_ + lines_->depth() : released_ + ring_.depth();
  for (; loaded_ < std::min(all_.size(), free); ++loaded_) load(loaded_);
}

void PartLoads::make() {
  const index count = all_[made_++].count;
  const Tensor slot = ring_.acquire(), rows = lines_->wait().slice(0, count, 0, cached_.dim);
  if (turned_)
    core_.vtranspose(slot.slice(0, cached_.dim, 0, count), rows);
  else
    core_.vpack_nz(slot.row_slice(0, count), rows);
  lines_->release();
  ring_.commit();
  fill();
}

void PartLoads::load(std::size_t part) {
  const auto& [work, first, count, uses] = all_[part];
  const Sequence& s = problem_.sequences[static_cast<std::size_t>(work->unit->sequence)];
  const NdTensor& view = cached_.views[static_cast<std::size_t>(s.view)];
  const index kv_head = work->unit->kv_head;
  if (lines_) {
    const Tensor rows = lines_->acquire().slice(0, count, 0, cached_.dim);
    TokenRange range{&s, kv_head, first, count, nullptr};
    range.blocks = &tables_->of(part, range);
    for_parts(problem_, range, [&](index outer, index row, index at, index n) {
      core_.copy(rows.row_slice(at, n), view.at(0, outer).slice(0, row, n).at(1, kv_head).at(1, 0).matrix());
    });
    return lines_->commit();
  }
  const Tensor tile = ring_.acquire();
  if (ready_) {
    const Tensor all = cache_.of(blocks_, problem_, work->unit->sequence, kv_head, cached_.dim);
    core_.copy(tile.row_slice(0, count), all.row_slice(first, count));
    return ring_.commit();
  }
  if (core_.runs(Pipe::load)) {  // else the table is nobody's to read
    TokenRange range{&s, kv_head, first, count, nullptr};
    range.blocks = &tables_->of(part, range);
    for_parts(problem_, range, [&](index outer, index row, index at, index rows) {
      core_.nd2nz(tile.row_slice(at, rows), view.at(0, outer).slice(0, row, rows).at(1, kv_head).at(1, 0).matrix());
    });
  }
  ring_.commit();
}

Tensor PartLoads::wait() {
  if (waits_ == 0) tile_ = turned_ ? ring_.wait().transposed() : ring_.wait();
  if (++waits_ == all_[waited_].uses) ++waited_, waits_ = 0;
  return tile_.row_slice(0, counts_[use_++]);
}

void PartLoads::release() {
  if (++releases_ < all_[released_].uses) return;
  releases_ = 0;
  ring_.release();
  ++released_;
  if (lines_ && made_ < std::min(all_.size(), waited_ + 1)) return make();
  fill();
}

}  // namespace inlay::npu
