// Sequences of paged_attention: context_lens and what of block_tables a query sees. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, long sequences_begin, global const int* lens, long lens_begin, long lens_stride,
    global const int* tables, long tables_begin, long tables_stride, long columns, long block_size, long blocks,
    long reach, long window_left, global int* record, int lens_place, int tables_place) {
  BUTTERFLY_ROOM;
  const int b = get_group_id(0);
  const long length = lens[lens_begin + b * lens_stride];
  bool right = is_within(length, 0, reach, record, lens_place, b);
  if (right && length > 0) {
    const long first = window_left >= 0 && window_left < length - 1 ? length - 1 - window_left : 0;
    right = names_blocks(tables + tables_begin + b * tables_stride, first / block_size, (length - 1) / block_size + 1,
                         blocks, record, tables_place, b * columns, butterfly_room);
  }
  if (LANE != 0) return;
  Sequence s = {.queries = right ? 1 : 0, .keys = length, .position = length - 1, .q_outer = b};
  s.table = b * tables_stride;
  ((global Sequence*)(sequences + sequences_begin))[b] = s;
}
