// Sequences of incre_flash_attention: which slots hold the keys. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"
#include "cl_kernels/incre_flash_attention.clh"

// slots: of K and V of these sequences; max_slots: what a length may be.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, global const uchar* lengths, global int* faults, const IncreSequencesArguments args) {
  const int b = args.first + get_group_id(0);
  const long length = lengths ? entry(lengths + args.lengths_begin, args.wide, b * args.lengths_stride) : args.slots;
  bool right = !lengths || is_within(length, 0, args.max_slots, faults, args.fault, b);
  long begin = 0, keys = length;
  if (right && args.left_padding) {
    begin = args.slots - clamp(args.padding, 0l, args.slots) - length;
    if (begin < 0) begin = keys = 0;
  }
  right = right && is_within(begin + keys, 0, args.slots, faults, args.fault, b);
  Sequence s = {.queries = right ? args.queries : 0, .keys = keys, .position = keys - args.queries, .q_outer = b};
  s.k = b * args.k_outer + begin * args.k_row;
  s.v = b * args.v_outer + begin * args.v_row;
  s.outer = b;
  s.row = s.column = begin;
  ((global Sequence*)(sequences + args.sequences_begin))[b] = s;
}
