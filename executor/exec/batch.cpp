#include <inlay/exec/batch.hpp>

#include <algorithm>

namespace inlay::exec {

Status Batch::add(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more) {
  const index end = sequence.length + static_cast<index>(more.size());
  if (Status status = pool.reserve(sequence, end); !status.ok()) return status;
  for (index position = sequence.length; position < end; ++position) {
    positions_.push_back(static_cast<std::int32_t>(position));
    slots_.push_back(pool.slot(sequence, position));
  }
  tokens_.insert(tokens_.end(), more.begin(), more.end());
  q_indptr_.push_back(static_cast<std::int32_t>(tokens_.size()));
  kv_lens_.push_back(static_cast<std::int32_t>(end));
  widen_tables(static_cast<index>(sequence.blocks.size()));
  block_table_.insert(block_table_.end(), sequence.blocks.begin(), sequence.blocks.end());
  block_table_.resize(static_cast<std::size_t>(sequences() * max_blocks_), 0);
  return {};
}

void Batch::widen_tables(index blocks) {
  if (blocks <= max_blocks_) return;
  std::vector<std::int32_t> wider(static_cast<std::size_t>((sequences() - 1) * blocks), 0);
  for (index s = 0; s + 1 < sequences(); ++s)
    std::copy_n(block_table_.begin() + s * max_blocks_, max_blocks_, wider.begin() + s * blocks);
  block_table_ = std::move(wider);
  max_blocks_ = blocks;
}

BatchViews<Host> Batch::views() const {
  return {.phase = phase_,
          .tokens = {tokens_.data(), {size()}},
          .positions = {positions_.data(), {1, size()}},
          .slots = {slots_.data(), {size()}},
          .q_indptr = {q_indptr_.data(), {sequences() + 1}},
          .kv_lens = {kv_lens_.data(), {sequences()}},
          .block_table = {block_table_.data(), {sequences(), max_blocks_}}};
}

}  // namespace inlay::exec
