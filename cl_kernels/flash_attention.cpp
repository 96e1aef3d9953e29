#include <inlay/ops/flash_attention.hpp>

#include <limits>

#include "cl_kernels/attention/attend.hpp"
#include "cl_kernels/flash_attention.clh"

namespace inlay::cl {

namespace {

using Op = FlashAttention<Cl>;

std::string text(std::int64_t number) { return std::to_string(number); }

FaultSlot indptr_fault(Cl& cl, const char* name, index rows) {
  return cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid(std::string(name) + " has " + text(value) + " at " + text(at) +
                               "; it must begin with 0, never fall and end by " + text(rows)));
  });
}
// What a mask must cover.
FaultSlot cover_fault(Cl& cl, const char* what, index covered) {
  return cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("the bias or mask covers " + text(covered) + " " + what + "; it must cover the " +
                               text(value) + " " + what + " of sequence " + text(at)));
  });
}

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const FlashAttention<Cl>& op) {
  return attention_scratch(cl, prompt_call(attention_problem(op)));
}

template <> Status compute(Cl& cl, const FlashAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const AttentionCall call = prompt_call(attention_problem(op));
  const index batch = call.batch();
  if (batch == 0) return {};
  const AttentionScratch scratch(cl, call, workspace);
  index max_queries = std::numeric_limits<index>::max(), max_keys = max_queries;
  for (const auto* mask : {&op.bias, &op.mask}) {
    if (!mask->present()) continue;
    if (mask->extents[2] != 1) max_queries = std::min(max_queries, mask->extents[2]);
    max_keys = std::min(max_keys, mask->extents[3]);
  }
  const index limit = call.max_kv_len, blocks = op.k.extents[0], columns = op.block_table.extents[1];
  Runtime& runtime = cl.runtime();
  const FaultSlot q_indptr = indptr_fault(cl, "q_indptr", op.q.extents[1]);
  const FaultSlot kv_indptr = indptr_fault(cl, "kv_indptr", op.k.extents[1]);
  const FaultSlot mask_indptr = indptr_fault(cl, "mask_indptr", op.packed_mask.extents[0]);
  const FaultSlot kv_lens = runtime.fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("kv_lens has " + text(value) + " at " + text(at) + "; it must be in 0.." + text(limit)));
  });
  const FaultSlot q_start = runtime.fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("q_start has " + text(value) + " at " + text(at) + "; it must be in -2^53..2^53"));
  });
  const FaultSlot table = runtime.fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("block_table has block " + text(value) + " at [" + text(at / columns) + ", " +
                               text(at % columns) + "]; it must be in 0.." + text(blocks - 1)));
  });
  const FaultSlot queries = cover_fault(cl, "queries", max_queries), keys = cover_fault(cl, "keys", max_keys);
  const FaultSlot packed = runtime.fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("mask_indptr gives sequence " + text(at) + " " + text(value) +
                               " bytes; it must have a bit for each of its queries and keys"));
  });
  const auto list = [](const ConstView<1, Cl>& view, FaultSlot fault) {
    return IndexList{.stride = view.strides[0], .wide = view.dtype == DType::i64, .fault = fault};
  };
  const int lanes = runtime.lanes(sequence_lanes);
  if (Status status = launch(cl, ProgramKey("flash_attention").number("LANES", lanes), "sequences",
                             {.groups = {batch}, .lanes = {lanes}},
                             FlashSequencesArguments{.q_indptr = list(op.q_indptr, q_indptr),
                                                     .kv_indptr = list(op.kv_indptr, kv_indptr),
                                                     .kv_lens = list(op.kv_lens, kv_lens),
                                                     .q_start = list(op.q_start, q_start),
                                                     .mask_indptr = list(op.mask_indptr, mask_indptr),
                                                     .table_stride = op.block_table.strides[0],
                                                     .columns = columns,
                                                     .blocks = blocks,
                                                     .q_len = op.q.extents[1],
                                                     .k_len = op.k.extents[1],
                                                     .max_kv_len = limit,
                                                     .packed_bytes = op.packed_mask.extents[0],
                                                     .max_queries = max_queries,
                                                     .max_keys = max_keys,
                                                     .k_outer = call.k.cache.strides[0],
                                                     .k_row = call.k.cache.strides[3],
                                                     .v_outer = call.v.cache.strides[0],
                                                     .v_row = call.v.cache.strides[3],
                                                     .table_fault = table,
                                                     .queries_fault = queries,
                                                     .keys_fault = keys,
                                                     .packed_fault = packed},
                             {{"sequences", scratch.sequences},
                              {"q_indptr", bytes_of(op.q_indptr)},
                              {"kv_indptr", bytes_of(op.kv_indptr)},
                              {"kv_lens", bytes_of(op.kv_lens)},
                              {"q_start", bytes_of(op.q_start)},
                              {"mask_indptr", bytes_of(op.mask_indptr)},
                              {"table", op.block_table},
                              faults_of(cl)});
      !status.ok())
    return status;
  return attend(cl, call, scratch, 0, batch);
}

}  // namespace inlay::cl
