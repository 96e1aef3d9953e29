#include <inlay/ops/paged_attention.hpp>

#include "cl_kernels/attention/attend.hpp"
#include "cl_kernels/paged_attention.clh"

namespace inlay::cl {

namespace {

index parts_of(const PagedAttention<Cl>& op) {
  const index reach = op.max_kv_len();
  return op.partition > 0 && op.partition < reach ? groups_of(reach, op.partition) : 1;
}

Cached cached_of(const ConstPagedView<Cl>& cache, const ConstView<3, Cl>& scales) {
  Cached c{};
  c.outer = cache.strides[0];
  c.row = cache.strides[3];
  c.head = cache.strides[1];
  c.piece = cache.extents[4];
  c.step = cache.strides[2];
  c.dim = static_cast<Int>(head_dim_of(cache));
  c.token_scales = scales.present();
  c.scale = {scales.strides[0], scales.strides[2], scales.strides[1], 0};
  return c;
}

Attention attention_of(const Cl& cl, const PagedAttention<Cl>& op) {
  Attention a = rules_of(op, op.q.extents[2]);
  Problem& p = a.problem;
  const auto& keys = op.k;
  const auto& values = op.v;
  p.k = cached_of(keys, op.k_scale);
  p.v = cached_of(values, op.v_scale);
  p.q = {op.q.strides[0], 0, op.q.strides[1], 0};
  p.out = {op.out.strides[0], 0, op.out.strides[1], 0};
  p.lse = {op.lse.strides[0], 0, op.lse.strides[1], 0};
  p.q_len = 1;
  p.tokens = op.q.extents[0];
  p.window_right = 0;
  p.block_size = block_size_of(keys);
  a.parts = parts_of(op);
  p.split = a.parts > 1 ? op.partition : longest_kv_len;
  p.batch = static_cast<Int>(op.q.extents[0]);
  p.q_heads = static_cast<Int>(op.q.extents[1]);
  p.kv_heads = static_cast<Int>(kv_head_count(keys));
  p.q_factor = p.scale * op.k_tensor_scale;
  p.value_factor = op.v_tensor_scale;
  a.k_type = keys.dtype;
  a.v_type = values.dtype;
  a.k_piece = piece_class(keys.extents[2], keys.extents[4]);
  a.v_piece = piece_class(values.extents[2], values.extents[4]);
  a.slots_of_values =
      values.extents[2] > 1 && values.extents[4] == 1 && values.strides[3] == 1 && p.block_size % 16 == 0;
  a.aligned = aligned(cl, keys, values);
  a.q_aligned = aligned(cl, op.q);
  a.rows = op.q.extents[1] / kv_head_count(keys);
  a.k = buffer_of(keys);
  a.v = buffer_of(values);
  a.table = buffer_of(op.block_table);
  a.k_scale = buffer_of(op.k_scale);
  a.v_scale = buffer_of(op.v_scale);
  return a;
}

}  // namespace

// Sized by the table, not by this call's lengths: a captured step may see longer ones.
template <> std::size_t scratch_bytes(Cl& cl, const PagedAttention<Cl>& op) {
  return attention_scratch(cl, attention_of(cl, op), op.q.extents[0]);
}

template <> Status compute(Cl& cl, const PagedAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  using Op = PagedAttention<Cl>;
  const index seqs = op.q.extents[0], columns = op.block_table.extents[1], blocks = block_count(op.k);
  const index reach = op.max_kv_len();
  const Attention attention = attention_of(cl, op);
  const AttentionScratch scratch(cl, attention, seqs, workspace);
  const FaultSlot lens = cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("kv_lens[" + std::to_string(at) + "] is " + std::to_string(value) +
                               "; it must be in 0.." + std::to_string(reach) + ", what a row of block_table reaches"));
  });
  const FaultSlot tables = cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("block_table[" + std::to_string(at / columns) + ", " + std::to_string(at % columns) +
                               "] is " + std::to_string(value) + "; it must be in 0.." + std::to_string(blocks - 1) +
                               ", the blocks of k"));
  });
  const int lanes = cl.runtime().lanes(sequence_lanes);
  if (Status status = launch(
          cl, ProgramKey("paged_attention").number("LANES", lanes), "sequences", {.groups = {seqs}, .lanes = {lanes}},
          PagedSequencesArguments{.lens_stride = op.kv_lens.strides[0],
                                  .tables_stride = op.block_table.strides[0],
                                  .columns = columns,
                                  .block_size = block_size_of(op.k),
                                  .blocks = blocks,
                                  .reach = reach,
                                  .window_left = op.window_left,
                                  .lens_fault = lens,
                                  .tables_fault = tables},
          {{"sequences", scratch.sequences}, {"lens", op.kv_lens}, {"tables", op.block_table}, faults_of(cl)});
      !status.ok())
    return status;
  return attend(cl, attention, scratch);
}

}  // namespace inlay::cl
