#include <inlay/ops/paged_attention.hpp>

#include "cl_kernels/attention/attend.hpp"
#include "cl_kernels/paged_attention.clh"

namespace inlay::cl {

// Sized by the table, not by this call's lengths: a captured step may see longer ones.
template <> std::size_t scratch_bytes(Cl& cl, const PagedAttention<Cl>& op) {
  return attention_scratch(cl, decode_call(cl, attention_problem(op)));
}

template <> Status compute(Cl& cl, const PagedAttention<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  using Op = PagedAttention<Cl>;
  const AttentionCall call = decode_call(cl, attention_problem(op));
  const AttentionScratch scratch(cl, call, workspace);
  const index seqs = call.batch(), columns = op.block_table.extents[1], blocks = block_count(op.k);
  const index reach = call.max_kv_len;
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
  return attend(cl, call, scratch, 0, seqs);
}

}  // namespace inlay::cl
