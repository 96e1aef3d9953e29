#include <inlay/ops/incre_flash_attention.hpp>

#include "cl_kernels/attention/attend.hpp"
#include "cl_kernels/incre_flash_attention.clh"

namespace inlay::cl {

namespace {

// Sequences first .. first + batch, whose K and V are one view each.
Status attend_some(Cl& cl, const AttentionCall& call, const AttentionScratch& scratch, index first, index batch) {
  using Op = IncreFlashAttention<Cl>;
  const ConstPagedView<Cl> k = call.k.of(first), v = call.v.of(first);
  const auto& lengths = call.kv_lens;
  const bool shared = lengths.present() && lengths.strides[0] == 0;
  const index slots = call.k.rows(first), max_slots = shared ? slots : call.max_kv_len;
  const FaultSlot fault = cl.runtime().fault_slot([=](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid("kv_lens has " + std::to_string(value) + " at " + std::to_string(shared ? 0 : at) +
                               "; it must be in 0.." + std::to_string(value > slots ? slots : max_slots)));
  });
  if (Status status = launch(cl, ProgramKey("incre_flash_attention"), "sequences", {.groups = {batch}, .lanes = {1}},
                             IncreSequencesArguments{.lengths_stride = lengths.strides[0],
                                                     .queries = call.q.extents[1],
                                                     .slots = slots,
                                                     .max_slots = max_slots,
                                                     .k_outer = k.strides[0],
                                                     .v_outer = v.strides[0],
                                                     .k_row = k.strides[3],
                                                     .v_row = v.strides[3],
                                                     .padding = call.padding,
                                                     .wide = lengths.dtype == DType::i64,
                                                     .first = static_cast<Int>(first),
                                                     .left_padding = call.left_padded,
                                                     .fault = fault},
                             {{"sequences", scratch.sequences}, {"lengths", bytes_of(lengths)}, faults_of(cl)});
      !status.ok())
    return status;
  return attend(cl, call, scratch, first, batch);
}

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const IncreFlashAttention<Cl>& op) {
  return attention_scratch(cl, decode_call(cl, attention_problem(op)));
}

template <> Status compute(Cl& cl, const IncreFlashAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const AttentionCall call = decode_call(cl, attention_problem(op));
  const AttentionScratch scratch(cl, call, workspace);
  if (!op.listed()) return attend_some(cl, call, scratch, 0, call.batch());
  for (index b = 0; b < call.batch(); ++b)
    if (Status status = attend_some(cl, call, scratch, b, 1); !status.ok()) return status;
  return {};
}

}  // namespace inlay::cl
