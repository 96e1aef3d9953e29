// The tokens of one forward pass and where each belongs: what a model reads beside its weights.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <inlay/exec/kv_pool.hpp>

namespace inlay::exec {

enum class Phase : unsigned char { prefill, decode };  // decode: one token of each sequence

// A batch as operators see it, in the memory of their backend.
template <class Space = Host> struct BatchViews {
  Phase phase = Phase::prefill;
  ConstView<1, Space> tokens;       // [tokens] i32
  ConstView<2, Space> positions;    // [1, tokens] i32, of each token in its sequence
  ConstView<1, Space> slots;        // [tokens] i64, of each token in the cache
  ConstView<1, Space> q_indptr;     // [sequences + 1] i32
  ConstView<1, Space> kv_lens;      // [sequences] i32, these tokens included
  ConstView<2, Space> block_table;  // [sequences, max_blocks] i32

  index size() const { return tokens.extents[0]; }
};

class Batch {
 public:
  explicit Batch(Phase phase = Phase::prefill) : phase_(phase) {}

  index size() const { return static_cast<index>(tokens_.size()); }
  index sequences() const { return static_cast<index>(kv_lens_.size()); }

  // Takes room in the pool for `more` tokens of `sequence` and adds them. The sequence's length moves
  // on when the pass has run: that is the caller's to say.
  Status add(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more);

  // Valid until the next add.
  BatchViews<Host> views() const;

 private:
  void widen_tables(index blocks);

  Phase phase_;
  std::vector<std::int32_t> tokens_, positions_;
  std::vector<std::int64_t> slots_;
  std::vector<std::int32_t> q_indptr_{0}, kv_lens_;
  std::vector<std::int32_t> block_table_;
  index max_blocks_ = 0;
};

// The batch in the memory of `tensors`, valid until the next one is uploaded there.
template <class Tensors>
Expected<BatchViews<typename Tensors::Space>> upload(Tensors& tensors, const BatchViews<Host>& batch) {
  BatchViews<typename Tensors::Space> there;
  there.phase = batch.phase;
  Status status;
  std::size_t number = 0;
  const auto one = [&](auto& to, const auto& from) {
    if (!status.ok()) return;
    auto uploaded = tensors.upload_to_slot(number++, from);
    if (uploaded)
      to = *uploaded;
    else
      status = std::move(uploaded.error());
  };
  one(there.tokens, batch.tokens);
  one(there.positions, batch.positions);
  one(there.slots, batch.slots);
  one(there.q_indptr, batch.q_indptr);
  one(there.kv_lens, batch.kv_lens);
  one(there.block_table, batch.block_table);
  if (!status.ok()) return failure(std::move(status));
  return there;
}

}  // namespace inlay::exec
