// Sequences of paged_attention: kv_lens and what of block_table a query sees. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"
#include "cl_kernels/paged_attention.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, global const int* lens, global const int* tables, global int* faults,
    const PagedSequencesArguments args) {
  BUTTERFLY_ROOM;
  const int b = get_group_id(0);
  const long length = lens[args.lens_begin + b * args.lens_stride];
  bool right = is_within(length, 0, args.reach, faults, args.lens_fault, b);
  if (right && length > 0) {
    const long first = args.window_left >= 0 && args.window_left < length - 1 ? length - 1 - args.window_left : 0;
    right = names_blocks(tables + args.tables_begin + b * args.tables_stride, first / args.block_size,
                         (length - 1) / args.block_size + 1, args.blocks, faults, args.tables_fault, b * args.columns,
                         butterfly_room);
  }
  if (LANE != 0) return;
  Sequence s = {.queries = right ? 1 : 0, .keys = length, .position = length - 1, .q_outer = b};
  s.table = b * args.tables_stride;
  ((global Sequence*)(sequences + args.sequences_begin))[b] = s;
}
