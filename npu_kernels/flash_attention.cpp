// Prefill attention over padded, ragged or paged keys: npu_kernels/attention has the programs.
#include <inlay/ops/flash_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

namespace {

void bind_views(GlobalMemory& memory, const FlashAttention<Host>& op, AttentionProblem& p) {
  p.q = memory.bind("q", op.q);
  p.k.views.push_back(as_one_piece(memory.bind("k", op.k)));
  p.v.views.push_back(as_one_piece(memory.bind("v", op.v)));
  p.k.dim = op.q.extents[3], p.v.dim = op.out.extents[3];
  // Rows behind the last sequence are not written.
  const index rows = op.q_indptr.present() ? entry(op.q_indptr, op.batch()) : op.q.extents[1];
  p.to.out = memory.bind("out", op.out.slice(1, 0, rows), Use::out);
  if (op.lse.present()) p.to.lse = memory.bind("lse", op.lse.slice(1, 0, rows), Use::out);
  p.k.scale = memory.bind_optional("k_scale", op.k_scale);
  p.k.offset = memory.bind_optional("k_offset", op.k_offset);
  p.v.scale = memory.bind_optional("v_scale", op.v_scale);
  p.v.offset = memory.bind_optional("v_offset", op.v_offset);
  p.table = memory.bind_optional("block_table", op.block_table);
  p.bias = memory.bind_optional("bias", op.bias);
  p.mask = memory.bind_optional("mask", op.mask);
  p.packed = memory.bind_optional("packed_mask", op.packed_mask);
}

}  // namespace

AttentionProblem problem_of(GlobalMemory& memory, const FlashAttention<Host>& op) {
  AttentionProblem p = rules_of(memory, op, op.q.extents[3]);
  bind_views(memory, op, p);
  p.block_size = op.block_table.present() ? op.k.extents[1] : 0;
  p.window_right = op.causal ? 0 : op.window_right;
  p.kv_heads = op.k.extents[2];
  p.by_chunks = true;
  for (index b = 0; b < op.batch(); ++b) {
    Sequence s{.queries = query_count(op, b), .keys = key_count(op, b)};
    s.position = op.q_start.present() ? entry(op.q_start, b) : s.keys - s.queries;
    s.q_outer = op.q_indptr.present() ? 0 : b;
    s.q_row = op.q_indptr.present() ? entry(op.q_indptr, b) : 0;
    s.outer = s.scale_outer = op.kv_indptr.present() ? 0 : b;
    s.row = s.scale_row = op.kv_indptr.present() ? entry(op.kv_indptr, b) : 0;
    if (op.packed_mask.present()) s.packed = entry(op.mask_indptr, b);
    p.sequences.push_back(s);
  }
  return p;
}

Program program(GlobalMemory& memory, const FlashAttention<Host>& op, const Choices& choices) {
  return attend(
      memory, [op](GlobalMemory& other) { return problem_of(other, op); }, choices.key, choices);
}

template <>
inline constexpr auto lists_read<FlashAttention<Host>> = std::tuple{
    &FlashAttention<Host>::q_indptr,    &FlashAttention<Host>::kv_indptr, &FlashAttention<Host>::kv_lens,
    &FlashAttention<Host>::block_table, &FlashAttention<Host>::q_start,   &FlashAttention<Host>::mask_indptr};

template struct Operator<FlashAttention<Host>>;

}  // namespace inlay::npu
