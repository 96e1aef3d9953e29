// The tokens of one forward pass and where each belongs: what a model reads beside its weights.
//
//   generated | a b c c |      rows of texts that are being written: paged attention, a query each
//   prompts   | d d d e e |    parts of prompts: flash attention, a sequence each
//
// Which attention computes a token belongs to the token and not to the batch, since the two differ in bits: a text
// depends neither on who shares its batch nor on whether it was computed a second time. Several generated tokens of one
// text (c) are rows that share its table and see one token more each.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <inlay/exec/block_pool.hpp>

namespace inlay::exec {

// A batch as operators see it, in the memory of their backend.
template <class Space = Host> struct BatchViews {
  // Tokens of the cache that a row, or a sequence, sees, its own included, and the blocks where they lie.
  struct Texts {
    ConstView<1, Space> kv_lens;      // [texts] i32
    ConstView<2, Space> block_table;  // [texts, max_blocks] i32

    index size() const { return kv_lens.extents[0]; }
  };

  ConstView<1, Space> tokens;     // [tokens] i32
  ConstView<2, Space> positions;  // [1, tokens] i32, of each token in its text
  ConstView<1, Space> slots;      // [tokens] i64, of each token in the cache
  Texts generated;                // of the first rows
  Texts prompts;                  // of the others
  ConstView<1, Space> q_indptr;   // [prompts + 1] i32: where the rows of each begin, from the first of all prompts on
  ConstView<1, Space> logit_rows = {};  // [rows] i32, the tokens whose logits are wanted; not present: the last ones
  ConstView<2, Space> copies = {};  // [copies, 2] i64: blocks that are copied before anything is written, as CopyBlocks

  index size() const { return tokens.extents[0]; }
};

// The same batch where move(view) says that each of its views lies.
template <class To, class From, class Move> BatchViews<To> moved(const BatchViews<From>& batch, Move&& move) {
  const auto texts = [&](const typename BatchViews<From>::Texts& from) {
    return typename BatchViews<To>::Texts{.kv_lens = move(from.kv_lens), .block_table = move(from.block_table)};
  };
  return {.tokens = move(batch.tokens),
          .positions = move(batch.positions),
          .slots = move(batch.slots),
          .generated = texts(batch.generated),
          .prompts = texts(batch.prompts),
          .q_indptr = move(batch.q_indptr),
          .logit_rows = move(batch.logit_rows),
          .copies = move(batch.copies)};
}

class Batch {
 public:
  index size() const { return static_cast<index>(tokens_.size()); }
  // How many tokens have logits.
  index logit_rows() const { return static_cast<index>(logit_rows_.size()); }

  // Each takes room in the pool for `more` tokens of `sequence`, and adds them; the last `logits` of them have logits.
  // When the pass has run, the sequence's length moves on and the pool's copies are copied(): that is the caller's to
  // say. Those of prompts come last.
  Status add_generated(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits = 1);
  Status add_prompt(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits = 0);

  // Empty, with the memory that it has.
  void clear();

  // A batch that was made elsewhere, of which `rows` tokens have logits. The views' elements may have any address.
  static Batch of(const BatchViews<Host>& views, index rows);

  // Valid until the next change.
  BatchViews<Host> views() const;

 private:
  // Rows of tables of unequal width.
  struct Texts {
    std::vector<std::int32_t> kv_lens, table;
    index max_blocks = 0;

    void add(index length, std::span<const std::int32_t> blocks);
    BatchViews<Host>::Texts views() const;
    void clear();
    void assign(const BatchViews<Host>::Texts& views);
  };

  Status add(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits);

  std::vector<std::int32_t> tokens_, positions_;
  std::vector<std::int64_t> slots_;
  Texts generated_, prompts_;
  std::vector<std::int32_t> q_indptr_{0}, logit_rows_;
  std::vector<std::int64_t> copies_;  // all that were pending when the last tokens were added
};

// The batch in the memory of `tensors`, valid until the next one is uploaded there.
template <class Tensors>
Expected<BatchViews<typename Tensors::Space>> upload(Tensors& tensors, const BatchViews<Host>& batch) {
  using Space = typename Tensors::Space;
  Status status;
  std::size_t number = 0;
  const auto there = moved<Space>(batch, [&]<int Rank>(const ConstView<Rank>& view) {
    ConstView<Rank, Space> result;
    if (!status.ok()) return result;
    auto uploaded = tensors.upload_to_slot(number++, view);
    if (uploaded)
      result = *uploaded;
    else
      status = std::move(uploaded.error());
    return result;
  });
  if (!status.ok()) return failure(std::move(status));
  return there;
}

}  // namespace inlay::exec
