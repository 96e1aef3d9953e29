#include <inlay/exec/batch.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace inlay::exec {

namespace {

template <class T, int Rank> void copy(const ConstView<Rank>& from, std::vector<T>& to) {
  to.resize(static_cast<std::size_t>(from.size()));
  if (!to.empty()) std::memcpy(to.data(), from.data, to.size() * sizeof(T));
}

}  // namespace

Status Batch::add_generated(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits) {
  if (!prompts_.kv_lens.empty()) return invalid("generated tokens are added behind a prompt; they must come before it");
  const index begin = sequence.length;
  if (Status status = add(pool, sequence, more, logits); !status.ok()) return status;
  for (index i = 0; i < static_cast<index>(more.size()); ++i) generated_.add(begin + i + 1, sequence.blocks);
  return {};
}

Status Batch::add_prompt(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits) {
  if (Status status = add(pool, sequence, more, logits); !status.ok()) return status;
  const auto count = static_cast<std::int32_t>(more.size());
  q_indptr_.push_back(q_indptr_.back() + count);
  prompts_.add(sequence.length + count, sequence.blocks);
  return {};
}

Status Batch::add(BlockPool& pool, Sequence& sequence, std::span<const std::int32_t> more, index logits) {
  const index end = sequence.length + static_cast<index>(more.size());
  if (Status status = pool.reserve(sequence, end); !status.ok()) return status;
  for (index position = sequence.length; position < end; ++position) {
    positions_.push_back(static_cast<std::int32_t>(position));
    slots_.push_back(pool.slot(sequence, position));
  }
  tokens_.insert(tokens_.end(), more.begin(), more.end());
  for (index row = size() - logits; row < size(); ++row) logit_rows_.push_back(static_cast<std::int32_t>(row));
  copies_.clear();
  for (const BlockPool::Copy& copy : pool.copies()) copies_.insert(copies_.end(), {copy.source, copy.target});
  return {};
}

void Batch::clear() {
  tokens_.clear(), positions_.clear(), slots_.clear(), logit_rows_.clear(), copies_.clear();
  generated_.clear(), prompts_.clear();
  q_indptr_.assign({0});
}

Batch Batch::of(const BatchViews<Host>& views, index rows) {
  Batch batch;
  copy(views.tokens, batch.tokens_), copy(views.positions, batch.positions_), copy(views.slots, batch.slots_);
  batch.generated_.assign(views.generated), batch.prompts_.assign(views.prompts);
  copy(views.q_indptr, batch.q_indptr_), copy(views.copies, batch.copies_);
  batch.logit_rows_.resize(static_cast<std::size_t>(rows));
  if (!views.logit_rows.empty())
    copy(views.logit_rows, batch.logit_rows_);
  else
    std::iota(batch.logit_rows_.begin(), batch.logit_rows_.end(), static_cast<std::int32_t>(batch.size() - rows));
  return batch;
}

void Batch::Texts::assign(const BatchViews<Host>::Texts& views) {
  copy(views.kv_lens, kv_lens), copy(views.block_table, table);
  max_blocks = views.block_table.extents[1];
}

void Batch::Texts::clear() {
  kv_lens.clear(), table.clear();
  max_blocks = 0;
}

void Batch::Texts::add(index length, std::span<const std::int32_t> blocks) {
  const auto width = static_cast<index>(blocks.size()), before = static_cast<index>(kv_lens.size());
  if (width > max_blocks) {
    table.resize(static_cast<std::size_t>(before * width));
    // The last first: a row moves behind where it lay.
    for (index row = before; row-- > 0;) {
      const auto from = table.begin() + row * max_blocks, to = table.begin() + row * width;
      if (row > 0) std::copy_backward(from, from + max_blocks, to + max_blocks);
      std::fill(to + max_blocks, to + width, 0);
    }
    max_blocks = width;
  }
  table.insert(table.end(), blocks.begin(), blocks.end());
  table.resize(static_cast<std::size_t>((before + 1) * max_blocks), 0);
  kv_lens.push_back(static_cast<std::int32_t>(length));
}

BatchViews<Host>::Texts Batch::Texts::views() const {
  const auto texts = static_cast<index>(kv_lens.size());
  return {.kv_lens = {kv_lens.data(), {texts}}, .block_table = {table.data(), {texts, max_blocks}}};
}

BatchViews<Host> Batch::views() const {
  BatchViews<Host> views{.tokens = {tokens_.data(), {size()}},
                         .positions = {positions_.data(), {1, size()}},
                         .slots = {slots_.data(), {size()}},
                         .generated = generated_.views(),
                         .prompts = prompts_.views(),
                         .q_indptr = {q_indptr_.data(), {static_cast<index>(q_indptr_.size())}},
                         .copies = {copies_.data(), {static_cast<index>(copies_.size()) / 2, 2}}};
  // They ascend: where the first of them lies so many before the end, they are the last ones.
  if (logit_rows() > 0 && logit_rows_.front() + logit_rows() < size())
    views.logit_rows = {logit_rows_.data(), {logit_rows()}};
  return views;
}

}  // namespace inlay::exec
