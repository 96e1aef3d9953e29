#include <inlay/ops/flash_attention.hpp>

#include <limits>

#include "cl_kernels/attention/attend.hpp"

namespace inlay::cl {

namespace {

constexpr index split = 2048;

Attention attention_of(const Cl& cl, const FlashAttention<Cl>& op) {
  Attention a = cl::attention_of(op, op.k.extents[2], op.block_table.present());
  Problem& p = a.problem;
  const index group = op.q.extents[2] / op.k.extents[2];
  p.k.outer = op.k.strides[0];
  p.k.row = op.k.strides[1];
  p.k.head = op.k.strides[2];
  p.v.outer = op.v.strides[0];
  p.v.row = op.v.strides[1];
  p.v.head = op.v.strides[2];
  p.window_right = op.causal ? 0 : op.window_right;
  p.block_size = op.block_table.present() ? op.k.extents[1] : 0;
  p.batch = static_cast<Int>(op.batch());
  p.split = split;
  p.bias = head_major_strides(op.bias);
  p.bias_type = static_cast<Int>(op.bias.dtype);
  p.mask = head_major_strides(op.atten_mask);
  a.k_type = op.k.dtype;
  a.v_type = op.v.dtype;
  a.aligned = aligned(cl, op.k, op.v);
  a.q_aligned = aligned(cl, op.q);
  a.by_chunks = true;
  a.parts = std::max<index>(1, groups_of(op.max_kv_len(), split));
  a.rows = op.q.extents[1] * group;
  a.ragged_rows = op.q_indptr.present() ? op.q.extents[1] * group : 0;
  a.k = part_of(op.k);
  a.v = part_of(op.v);
  a.table = part_of(op.block_table);
  a.bias = bytes_of(op.bias);
  a.mask = part_of(op.atten_mask);
  a.packed = part_of(op.packed_mask);
  return a;
}

using Op = FlashAttention<Cl>;

std::string text(std::int64_t number) { return std::to_string(number); }

Place indptr_place(Cl& cl, const char* name, index rows) {
  return cl.runtime().place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid(std::string(name) + " has " + text(value) + " at " + text(at) +
                               "; it must begin with 0, never fall and end by " + text(rows)));
  });
}
// What a mask must cover.
Place cover_place(Cl& cl, const char* what, index covered) {
  return cl.runtime().place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("the bias or atten_mask covers " + text(covered) + " " + what + "; it must cover the " +
                               text(value) + " " + what + " of sequence " + text(at)));
  });
}

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const FlashAttention<Cl>& op) {
  return attention_scratch(cl, attention_of(cl, op), op.batch());
}

template <> Status compute(Cl& cl, const FlashAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const index batch = op.batch();
  if (batch == 0) return {};
  const Attention attention = attention_of(cl, op);
  const AttentionScratch scratch(cl, attention, batch, workspace);
  index most_queries = std::numeric_limits<index>::max(), most_keys = most_queries;
  for (const auto* mask : {&op.bias, &op.atten_mask}) {
    if (!mask->present()) continue;
    if (mask->extents[2] != 1) most_queries = std::min(most_queries, mask->extents[2]);
    most_keys = std::min(most_keys, mask->extents[3]);
  }
  const index limit = op.max_kv_len(), blocks = op.k.extents[0], columns = op.block_table.extents[1];
  Runtime& runtime = cl.runtime();
  const Place q_indptr = indptr_place(cl, "q_indptr", op.q.extents[1]);
  const Place kv_indptr = indptr_place(cl, "kv_indptr", op.k.extents[1]);
  const Place mask_indptr = indptr_place(cl, "mask_indptr", op.packed_mask.extents[0]);
  const Place kv_lens = runtime.place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("kv_lens has " + text(value) + " at " + text(at) + "; it must be in 0.." + text(limit)));
  });
  const Place q_start = runtime.place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("q_start has " + text(value) + " at " + text(at) + "; it must be in -2^53..2^53"));
  });
  const Place table = runtime.place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("block_table has block " + text(value) + " at [" + text(at / columns) + ", " +
                               text(at % columns) + "]; it must be in 0.." + text(blocks - 1)));
  });
  const Place queries = cover_place(cl, "queries", most_queries), keys = cover_place(cl, "keys", most_keys);
  const Place packed = runtime.place([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("mask_indptr gives sequence " + text(at) + " " + text(value) +
                               " bytes; it must have a bit for each of its queries and keys"));
  });
  const auto wide = [](const ConstView<1, Cl>& list) { return list.dtype == DType::i64; };
  const int lanes = runtime.lanes(sequence_lanes);
  if (Status status = launch(
          cl, Variant("flash_attention").number("LANES", lanes), "sequences", {.groups = {batch}, .lanes = {lanes}},
          scratch.sequences, bytes_of(op.q_indptr), op.q_indptr.strides[0], wide(op.q_indptr), bytes_of(op.kv_indptr),
          op.kv_indptr.strides[0], wide(op.kv_indptr), bytes_of(op.kv_lens), op.kv_lens.strides[0], wide(op.kv_lens),
          bytes_of(op.q_start), op.q_start.strides[0], wide(op.q_start), bytes_of(op.mask_indptr),
          op.mask_indptr.strides[0], wide(op.mask_indptr), op.block_table, op.block_table.strides[0], op.q.extents[1],
          op.k.extents[1], limit, op.k.strides[0], op.v.strides[0], op.k.strides[1], op.v.strides[1], columns, blocks,
          op.packed_mask.extents[0], most_queries, most_keys, q_indptr, kv_indptr.number, kv_lens.number,
          q_start.number, mask_indptr.number, table.number, queries.number, keys.number, packed.number);
      !status.ok())
    return status;
  return attend(cl, attention, scratch);
}

}  // namespace inlay::cl
