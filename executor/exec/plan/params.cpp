#include <inlay/exec/plan/params.hpp>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include <inlay/core/attention.hpp>
#include <inlay/core/check.hpp>

namespace inlay::exec {

namespace {

Status wrong(const std::string& entry, index value, const std::string& must) {
  return invalid(entry + " is " + std::to_string(value) + "; it must be " + must);
}
std::string at(index i) { return "[" + std::to_string(i) + "]"; }

// `of`: "generated.", "prompts." or nothing. Words are put together where they are due: a good batch costs compares.
template <int Rank>
Status demand(const char* of, const char* name, const ConstView<Rank>& view, DType dtype,
              const IndexArray<Rank>& shape) {
  if (view.dtype == dtype && view.extents == shape && (view.empty() || view.contiguous())) return {};
  const auto told = [](DType type, const IndexArray<Rank>& extents) {
    return std::string(inlay::name(type)) + " " + std::string(format_shape(extents));
  };
  return invalid(of + std::string(name) + " is " + told(view.dtype, view.extents) + "; it must be " +
                 told(dtype, shape) + ", contiguous");
}

// How many columns hold `blocks` of a text: a power of two.
index rounded_up(index blocks) {
  return blocks < 1 ? 0 : static_cast<index>(std::bit_ceil(static_cast<std::size_t>(blocks)));
}

template <class T> ConstView<1> put(const ConstView<1>& list, WorkspaceCutter& to) {
  T* const there = to.take<T>(list.extents[0]);
  std::copy_n(list.as<T>(), list.extents[0], there);
  return {there, list.extents};
}

}  // namespace

Expected<Params> Params::make(const ModelConfig& config, const BlockPool::Shape& cache, index max_tokens) {
  index window = 0;
  for (index i = 0; i < config.layers; ++i) {
    const index of_layer = config.layer(i).window;
    if (of_layer == 0 || of_layer > window) window = of_layer;
    if (of_layer == 0) break;
  }
  Params params({.max_tokens = max_tokens,
                 .vocab = config.vocab,
                 .blocks = cache.blocks,
                 .block_size = cache.block_size,
                 .window = window - 1});
  const index longest = std::min(groups_of(config.context, cache.block_size), cache.blocks);
  if (Status status = params.take_room(rounded_up(longest)); !status.ok()) return failure(std::move(status));
  return params;
}

// What there was is kept where there is no memory for more.
Status Params::take_room(index table_width) {
  const index tokens = bounds_.max_tokens, table = saturating_multiply(tokens, table_width);
  using Int = std::int32_t;
  const std::size_t bytes = WorkspaceCutter::padded<std::int64_t>(tokens) + 5 * WorkspaceCutter::padded<Int>(tokens) +
                            WorkspaceCutter::padded<Int>(tokens + 1) + 2 * WorkspaceCutter::padded<Int>(table);
  HostTensors tensors;
  auto memory = tensors.make<1>(DType::i8, {static_cast<index>(bytes)});
  if (!memory) return std::move(memory.error());
  tensors_ = std::move(tensors);
  memory_ = *memory;
  table_width_ = table_width;
  renew();
  return {};
}

Status Params::commit(const BatchViews<Host>& batch) {
  if (Status status = check_shapes(batch); !status.ok()) return status;
  if (Status status = check_contents(batch); !status.ok()) return status;
  const index width =
      std::max(rounded_up(batch.generated.block_table.extents[1]), rounded_up(batch.prompts.block_table.extents[1]));
  if (width > table_width_)
    if (Status status = take_room(width); !status.ok()) return status;
  using Int = std::int32_t;
  const ConstView<1> positions(batch.positions.data, DType::i32, {batch.size()});
  WorkspaceCutter to({static_cast<std::byte*>(memory_.data), static_cast<std::size_t>(memory_.size())});
  views_ = {};
  views_.slots = exec::put<std::int64_t>(batch.slots, to);
  views_.tokens = exec::put<Int>(batch.tokens, to);
  views_.positions = {exec::put<Int>(positions, to).data, DType::i32, {1, batch.size()}};
  if (batch.logit_rows.present()) views_.logit_rows = exec::put<Int>(batch.logit_rows, to);
  views_.generated = put(batch.generated, to);
  views_.q_indptr = exec::put<Int>(batch.q_indptr, to);
  views_.prompts = put(batch.prompts, to);
  used_ = static_cast<std::size_t>(to.take<std::byte>(0) - static_cast<std::byte*>(memory_.data));
  return {};
}

BatchViews<Host>::Texts Params::put(const BatchViews<Host>::Texts& texts, WorkspaceCutter& to) const {
  using Int = std::int32_t;
  const index given = texts.block_table.extents[1], width = rounded_up(given);
  const ConstView<1> kv_lens = exec::put<Int>(texts.kv_lens, to);
  Int* const table = to.take<Int>(texts.size() * width);
  for (index row = 0; row < texts.size(); ++row) {
    const auto* const blocks = texts.block_table.as<Int>() + row * given;
    const index used = groups_of(texts.kv_lens.as<Int>()[row], bounds_.block_size);
    std::fill_n(std::copy_n(blocks, used, table + row * width), width - used, -1);
  }
  return {.kv_lens = kv_lens, .block_table = {table, {texts.size(), width}}};
}

Status Params::check_shapes(const BatchViews<Host>& batch) const {
  const index tokens = batch.size(), rows = batch.logit_rows.extents[0];
  if (tokens > bounds_.max_tokens)
    return invalid("tokens has " + std::to_string(tokens) + " entries; a pass must have at most " +
                   std::to_string(bounds_.max_tokens));
  const auto demand_texts = [&](const char* of, const BatchViews<Host>::Texts& texts) {
    const index width = texts.block_table.extents[1], most = std::min(texts.size(), tokens);
    Status status = demand(of, "kv_lens", texts.kv_lens, DType::i32, {most});
    return status.ok() ? demand(of, "block_table", texts.block_table, DType::i32, {most, width}) : std::move(status);
  };
  if (Status status = demand("", "tokens", batch.tokens, DType::i32, {tokens}); !status.ok()) return status;
  if (Status status = demand("", "positions", batch.positions, DType::i32, {1, tokens}); !status.ok()) return status;
  if (Status status = demand("", "slots", batch.slots, DType::i64, {tokens}); !status.ok()) return status;
  if (Status status = demand_texts("generated.", batch.generated); !status.ok()) return status;
  if (Status status = demand_texts("prompts.", batch.prompts); !status.ok()) return status;
  if (Status status = demand("", "q_indptr", batch.q_indptr, DType::i32, {batch.prompts.size() + 1}); !status.ok())
    return status;
  if (!batch.logit_rows.present()) return {};
  return demand("", "logit_rows", batch.logit_rows, DType::i32, {std::min(rows, tokens)});
}

Status Params::check_contents(const BatchViews<Host>& batch) const {
  const index tokens = batch.size(), prompt_rows = tokens - batch.generated.size();
  const index slots = saturating_multiply(bounds_.blocks, bounds_.block_size);
  for (index i = 0; i < tokens; ++i) {
    if (const index token = batch.tokens.as<std::int32_t>()[i]; token < 0 || token >= bounds_.vocab)
      return wrong("tokens" + at(i), token, "in 0.." + std::to_string(bounds_.vocab - 1) + ", the vocabulary");
    if (const index slot = batch.slots.as<std::int64_t>()[i]; slot >= slots)
      return wrong("slots" + at(i), slot,
                   "below " + std::to_string(slots) + ", the slots of the cache, or negative to skip the token");
  }
  if (Status status = check_texts("generated", batch.generated, true); !status.ok()) return status;
  if (Status status = check_texts("prompts", batch.prompts, false); !status.ok()) return status;
  for (index i = 0, before = 0; i <= batch.prompts.size(); ++i) {
    const index begin = batch.q_indptr.as<std::int32_t>()[i];
    if (i == 0 ? begin != 0 : begin < before || begin > prompt_rows)
      return wrong(
          "q_indptr" + at(i), begin,
          "0 at the beginning, never fall and end by " + std::to_string(prompt_rows) + ", the rows of prompts");
    before = begin;
  }
  for (index i = 0; i < batch.logit_rows.extents[0]; ++i)
    if (const index row = batch.logit_rows.as<std::int32_t>()[i]; row < 0 || row >= tokens)
      return wrong("logit_rows" + at(i), row, "in 0.." + std::to_string(tokens - 1) + ", the tokens of the pass");
  return {};
}

Status Params::check_texts(const char* which, const BatchViews<Host>::Texts& texts, bool windowed) const {
  const index width = texts.block_table.extents[1], reach = saturating_multiply(width, bounds_.block_size);
  for (index row = 0; row < texts.size(); ++row) {
    const index length = texts.kv_lens.as<std::int32_t>()[row];
    if (length < 0 || length > reach)
      return wrong(which + (".kv_lens" + at(row)), length,
                   "in 0.." + std::to_string(reach) + ", what a row of block_table reaches");
    const KeyRange keys = visible_keys(length - 1, length, windowed ? bounds_.window : -1, 0);
    for (index i = keys.begin / bounds_.block_size; i < groups_of(length, bounds_.block_size); ++i)
      if (const index block = texts.block_table.as<std::int32_t>()[row * width + i];
          block < 0 || block >= bounds_.blocks)
        return wrong(which + (".block_table[" + std::to_string(row) + ", " + std::to_string(i) + "]"), block,
                     "in 0.." + std::to_string(bounds_.blocks - 1) + ", the blocks of the cache");
  }
  return {};
}

}  // namespace inlay::exec
