// Decode attention over a cache of rows, or over one for each sequence: npu_kernels/attention has the programs.
#include <inlay/ops/incre_flash_attention.hpp>

#include "npu_kernels/attention/attend.hpp"
#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

namespace {

// A list's part as the only sequence of its own [1, slots, heads, dim].
NdTensor bind_part(GlobalMemory& memory, const char* name, const ConstView<3>& part) {
  return as_one_piece(with_axis(memory.bind(name, part), 0));
}

void bind_cache(GlobalMemory& memory, const IncreFlashAttention<Host>& op, AttentionProblem& p) {
  if (op.listed()) {
    for (const auto& part : op.k_list) p.k.views.push_back(bind_part(memory, "k_list", part));
    for (const auto& part : op.v_list) p.v.views.push_back(bind_part(memory, "v_list", part));
  } else {
    p.k.views.push_back(as_one_piece(memory.bind("k", op.k)));
    p.v.views.push_back(as_one_piece(memory.bind("v", op.v)));
  }
  p.k.dim = op.q.extents[3], p.v.dim = op.out.extents[3];
  p.k.scale = memory.bind_optional("k_scale", op.k_scale);
  p.k.offset = memory.bind_optional("k_offset", op.k_offset);
  p.v.scale = memory.bind_optional("v_scale", op.v_scale);
  p.v.offset = memory.bind_optional("v_offset", op.v_offset);
}

}  // namespace

AttentionProblem problem_of(GlobalMemory& memory, const IncreFlashAttention<Host>& op) {
  AttentionProblem p = rules_of(memory, op, op.q.extents[3]);
  p.q = memory.bind("q", op.q);
  bind_cache(memory, op, p);
  p.to.out = memory.bind("out", op.out, Use::out);
  p.to.lse = memory.bind_optional("lse", op.lse, Use::out);
  p.to.out_scale = memory.bind_optional("out_scale", op.out_scale);
  p.to.out_offset = memory.bind_optional("out_offset", op.out_offset);
  p.bias = memory.bind_optional("bias", op.bias);
  // [batch, query, slot]: of all heads.
  if (op.mask.present()) p.mask = with_axis(memory.bind("mask", op.mask), 1);
  p.window_right = op.causal ? 0 : -1;
  p.kv_heads = op.keys(0).extents[1];
  for (index b = 0; b < op.q.extents[0]; ++b) {
    const KeyRange slots = key_slots(op, b);
    const index keys = slots.end - slots.begin;
    Sequence s{.queries = op.q.extents[1], .keys = keys, .position = keys - op.q.extents[1], .q_outer = b};
    s.view = op.listed() ? b : 0;
    s.outer = op.listed() ? 0 : b;
    s.scale_outer = b;
    s.row = s.scale_row = s.column = slots.begin;
    p.sequences.push_back(s);
  }
  return p;
}

Program program(GlobalMemory& memory, const IncreFlashAttention<Host>& op, const Choices& choices) {
  return attend(
      memory, [op](GlobalMemory& other) { return problem_of(other, op); }, choices.key, choices);
}

template <>
inline constexpr auto lists_read<IncreFlashAttention<Host>> = std::tuple{&IncreFlashAttention<Host>::kv_lens};

template struct Operator<IncreFlashAttention<Host>>;

}  // namespace inlay::npu
