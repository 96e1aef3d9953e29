// Decode attention over a cache in blocks, of rows or of vLLM's pieces: npu_kernels/attention has the programs.
#include <inlay/ops/paged_attention.hpp>

#include <inlay/core/entries.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

namespace {

// [block, head, group, slot, x] as [block, slot, head, group, x].
NdTensor bind_cache(GlobalMemory& memory, const char* name, const ConstPagedView<Host>& cache) {
  return memory.bind(name, cache).permuted({0, 3, 1, 2, 4});
}
// [block, head, slot] as [block, slot, head, 1].
NdTensor bind_scales(GlobalMemory& memory, const char* name, const ConstView<3>& scales) {
  return with_axis(memory.bind(name, scales).permuted({0, 2, 1}), 3);
}

}  // namespace

AttentionProblem problem_of(GlobalMemory& memory, const PagedAttention<Host>& op) {
  AttentionProblem p = rules_of(memory, op, op.q.extents[2]);
  p.q = with_axis(memory.bind("q", op.q), 0);
  p.k.views.push_back(bind_cache(memory, "k", op.k));
  p.v.views.push_back(bind_cache(memory, "v", op.v));
  p.k.dim = op.q.extents[2], p.v.dim = op.out.extents[2];
  if (op.k_scale.present()) p.k.scale = bind_scales(memory, "k_scale", op.k_scale);
  if (op.v_scale.present()) p.v.scale = bind_scales(memory, "v_scale", op.v_scale);
  p.key_factor = op.k_tensor_scale, p.to.factor = op.v_tensor_scale;
  p.to.out = with_axis(memory.bind("out", op.out, Use::out), 0);
  if (op.lse.present()) p.to.lse = with_axis(memory.bind("lse", op.lse, Use::out), 0);
  p.table = memory.bind("block_table", op.block_table);
  p.block_size = block_size_of(op.k);
  p.window_right = 0;
  p.kv_heads = kv_head_count(op.k);
  for (index b = 0; b < op.q.extents[0]; ++b) {
    const index length = entry(op.kv_lens, b);
    p.sequences.push_back({.queries = 1, .keys = length, .position = length - 1, .q_outer = 0, .q_row = b});
  }
  return p;
}

Program program(GlobalMemory& memory, const PagedAttention<Host>& op, const Choices& choices) {
  return attend(
      memory, [op](GlobalMemory& other) { return problem_of(other, op); }, choices.key, choices);
}

template <>
inline constexpr auto lists_read<PagedAttention<Host>> =
    std::tuple{&PagedAttention<Host>::block_table, &PagedAttention<Host>::kv_lens};

template struct Operator<PagedAttention<Host>>;

}  // namespace inlay::npu
