#include <inlay/ops/incre_flash_attention.hpp>

#include "cl_kernels/attention/attend.hpp"
#include "cl_kernels/incre_flash_attention.clh"

namespace inlay::cl {

namespace {

constexpr index split = 1024;

// Without K and V, which may come one a sequence.
Attention attention_of(const IncreFlashAttention<Cl>& op) {
  const auto k = op.keys(0), v = op.values(0);
  Attention a = cl::attention_of(op, k.extents[1], false);
  Problem& p = a.problem;
  p.window_right = op.causal ? 0 : -1;
  p.split = split;
  p.bias = head_major_strides(op.bias);
  p.bias_type = static_cast<Int>(op.bias.dtype);
  const auto& mask = op.mask;
  p.mask = head_major_strides({mask.data,
                               mask.dtype,
                               {mask.extents[0], 1, mask.extents[1], mask.extents[2]},
                               {mask.strides[0], 0, mask.strides[1], 1}});
  const auto step = [](const ConstView<2, Cl>& view, int d) {
    return view.extents[d] == 1 ? index{0} : view.strides[d];
  };
  p.out_scale_head = step(op.out_scale, 0);
  p.out_scale_dim = step(op.out_scale, 1);
  p.out_offset_head = step(op.out_offset, 0);
  p.out_offset_dim = step(op.out_offset, 1);
  a.k_type = k.dtype;
  a.v_type = v.dtype;
  a.parts = std::max<index>(1, groups_of(op.max_slots(), split));
  a.rows = op.q.extents[1] * (op.q.extents[2] / k.extents[1]);
  a.bias = bytes_of(op.bias);
  a.mask = buffer_of(op.mask);
  a.out_scale = buffer_of(op.out_scale);
  a.out_offset = buffer_of(op.out_offset);
  return a;
}

// Sequences first .. first + batch, whose K and V are one view each.
template <class View>
Status attend_some(Cl& cl, const IncreFlashAttention<Cl>& op, const AttentionScratch& scratch, index first, index batch,
                   const View& k, const View& v, index k_outer, index v_outer, index slots) {
  using Op = IncreFlashAttention<Cl>;
  Attention a = attention_of(op);
  Problem& p = a.problem;
  p.batch = static_cast<Int>(batch);
  p.first_sequence = static_cast<Int>(first);
  const auto one = View::rank - 3;  // where slots stand
  p.k.row = k.strides[one];
  p.k.head = k.strides[one + 1];
  p.v.row = v.strides[one];
  p.v.head = v.strides[one + 1];
  a.k = buffer_of(k);
  a.v = buffer_of(v);
  a.aligned = aligned(cl, k, v);
  a.q_aligned = aligned(cl, op.q);
  const auto& lengths = op.kv_lens;
  const bool shared = lengths.present() && lengths.extents[0] == 1;
  const index max_slots = shared ? slots : op.max_slots();
  const FaultSlot fault = cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("kv_lens has " + std::to_string(value) + " at " + std::to_string(shared ? 0 : at) +
                               "; it must be in 0.." + std::to_string(value > slots ? slots : max_slots)));
  });
  if (Status status = launch(cl, ProgramKey("incre_flash_attention"), "sequences", {.groups = {batch}, .lanes = {1}},
                             IncreSequencesArguments{.lengths_stride = shared ? index{0} : lengths.strides[0],
                                                     .queries = op.q.extents[1],
                                                     .slots = slots,
                                                     .max_slots = max_slots,
                                                     .k_outer = k_outer,
                                                     .v_outer = v_outer,
                                                     .k_row = p.k.row,
                                                     .v_row = p.v.row,
                                                     .padding = op.kv_padding,
                                                     .wide = lengths.dtype == DType::i64,
                                                     .first = static_cast<Int>(first),
                                                     .left_padding = op.kv_left_padding,
                                                     .fault = fault},
                             {{"sequences", scratch.sequences}, {"lengths", bytes_of(lengths)}, faults_of(cl)});
      !status.ok())
    return status;
  return attend(cl, a, scratch);
}

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const IncreFlashAttention<Cl>& op) {
  return attention_scratch(cl, attention_of(op), op.out.extents[0]);
}

template <> Status compute(Cl& cl, const IncreFlashAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const index batch = op.out.extents[0];
  const AttentionScratch scratch(cl, attention_of(op), batch, workspace);
  if (!op.listed())
    return attend_some(cl, op, scratch, 0, batch, op.k, op.v, op.k.strides[0], op.v.strides[0], op.k.extents[1]);
  for (index b = 0; b < batch; ++b)
    if (Status status = attend_some(cl, op, scratch, b, 1, op.k_list[b], op.v_list[b], 0, 0, op.k_list[b].extents[0]);
        !status.ok())
      return status;
  return {};
}

}  // namespace inlay::cl
