// The tokens of one forward pass and where each belongs: what a model reads beside its weights.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <inlay/exec/kv_pool.hpp>

namespace inlay::exec {

struct Batch {
  enum class Phase { prefill, decode };  // decode: one token of each sequence

  Phase phase = Phase::prefill;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;    // of each token in its sequence
  std::vector<std::int64_t> slots;        // of each token in the cache
  std::vector<std::int32_t> q_indptr{0};  // [sequences + 1]
  std::vector<std::int32_t> kv_lens;      // [sequences], these tokens included
  std::vector<std::int32_t> block_table;  // [sequences, max_blocks]
  index max_blocks = 0;

  index size() const { return static_cast<index>(tokens.size()); }
  index sequences() const { return static_cast<index>(kv_lens.size()); }

  // Takes room in the pool for `more` tokens of `sequence` and adds them. The sequence's length moves
  // on when the pass has run: advance().
  Status add(KvPool& pool, Sequence& sequence, std::span<const std::int32_t> more) {
    const index end = sequence.length + static_cast<index>(more.size());
    if (Status status = pool.reserve(sequence, end); !status.ok()) return status;
    for (index position = sequence.length; position < end; ++position) {
      positions.push_back(static_cast<std::int32_t>(position));
      slots.push_back(pool.slot(sequence, position));
    }
    tokens.insert(tokens.end(), more.begin(), more.end());
    q_indptr.push_back(static_cast<std::int32_t>(tokens.size()));
    kv_lens.push_back(static_cast<std::int32_t>(end));
    widen_tables(static_cast<index>(sequence.blocks.size()));
    block_table.insert(block_table.end(), sequence.blocks.begin(), sequence.blocks.end());
    block_table.resize(static_cast<std::size_t>(sequences() * max_blocks), 0);
    return {};
  }

 private:
  void widen_tables(index blocks) {
    if (blocks <= max_blocks) return;
    std::vector<std::int32_t> wider(static_cast<std::size_t>((sequences() - 1) * blocks), 0);
    for (index s = 0; s + 1 < sequences(); ++s)
      std::copy_n(block_table.begin() + s * max_blocks, max_blocks, wider.begin() + s * blocks);
    block_table = std::move(wider);
    max_blocks = blocks;
  }
};

}  // namespace inlay::exec
