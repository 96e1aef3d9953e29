// Sequences of incre_flash_attention: which slots hold the keys. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"

// slots: of K and V of these sequences; most_slots: what a length may be.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, long sequences_begin, global const uchar* lengths, long lengths_begin, long lengths_stride,
    int wide, int first, long queries, long slots, long most_slots, long k_outer, long v_outer, long k_row, long v_row,
    int left_padding, long padding, global int* record, int place) {
  const int b = first + get_group_id(0);
  const long length = lengths ? entry(lengths + lengths_begin, wide, b * lengths_stride) : slots;
  bool right = !lengths || is_within(length, 0, most_slots, record, place, b);
  long begin = 0, keys = length;
  if (right && left_padding) {
    begin = slots - clamp(padding, 0l, slots) - length;
    if (begin < 0) begin = keys = 0;
  }
  right = right && is_within(begin + keys, 0, slots, record, place, b);
  Sequence s = {.queries = right ? queries : 0, .keys = keys, .position = keys - queries, .q_outer = b};
  s.k = b * k_outer + begin * k_row;
  s.v = b * v_outer + begin * v_row;
  s.outer = b;
  s.row = s.column = begin;
  ((global Sequence*)(sequences + sequences_begin))[b] = s;
}
