// Sequences of flash_attention: queries and keys, padded, ragged or in blocks. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"

// Are entries b and b + 1 of an indptr what they must be? It begins with 0, never falls and ends by `rows`.
static inline bool is_part(global const uchar* list, int wide, long stride, int b, long rows, global int* record,
                           int place) {
  const long begin = entry(list, wide, b * stride), end = entry(list, wide, (b + 1) * stride);
  const long before = b > 0 ? entry(list, wide, (b - 1) * stride) : 0;
  return is_within(begin, before, b > 0 ? rows : 0, record, place, b) &&
         is_within(end, begin, rows, record, place, b + 1);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, long sequences_begin, global const uchar* q_indptr, long q_indptr_begin,
    long q_indptr_stride, int q_indptr_wide, global const uchar* kv_indptr, long kv_indptr_begin, long kv_indptr_stride,
    int kv_indptr_wide, global const uchar* kv_lens, long kv_lens_begin, long kv_lens_stride, int kv_lens_wide,
    global const uchar* q_start, long q_start_begin, long q_start_stride, int q_start_wide,
    global const uchar* mask_indptr, long mask_indptr_begin, long mask_indptr_stride, int mask_indptr_wide,
    global const int* table, long table_begin, long table_stride, long q_len, long k_len, long max_kv_len, long k_outer,
    long v_outer, long k_row, long v_row, long columns, long blocks, long packed_bytes, long most_queries,
    long most_keys, global int* record, int q_indptr_place, int kv_indptr_place, int kv_lens_place, int q_start_place,
    int mask_indptr_place, int table_place, int queries_place, int keys_place, int packed_place) {
  BUTTERFLY_ROOM;
  const int b = get_group_id(0);
  Sequence s = {.queries = q_len, .keys = k_len, .q_outer = b, .outer = b};
  bool right = true;
  if (q_indptr) {
    q_indptr += q_indptr_begin;
    right = is_part(q_indptr, q_indptr_wide, q_indptr_stride, b, q_len, record, q_indptr_place);
    s.q_outer = 0;
    // Sequences are found by where their rows begin, an offender among them too.
    s.q_row = clamp(entry(q_indptr, q_indptr_wide, b * q_indptr_stride), 0l, q_len);
    s.queries = entry(q_indptr, q_indptr_wide, (b + 1) * q_indptr_stride) - s.q_row;
  }
  if (kv_indptr) {
    kv_indptr += kv_indptr_begin;
    right = right && is_part(kv_indptr, kv_indptr_wide, kv_indptr_stride, b, k_len, record, kv_indptr_place);
    s.outer = 0;
    s.row = entry(kv_indptr, kv_indptr_wide, b * kv_indptr_stride);
    s.keys = entry(kv_indptr, kv_indptr_wide, (b + 1) * kv_indptr_stride) - s.row;
  }
  if (kv_lens) {
    s.keys = entry(kv_lens + kv_lens_begin, kv_lens_wide, b * kv_lens_stride);
    right = right && is_within(s.keys, 0, max_kv_len, record, kv_lens_place, b);
  }
  s.position = s.keys - s.queries;
  if (q_start) {
    s.position = entry(q_start + q_start_begin, q_start_wide, b * q_start_stride);
    right = right && is_within(s.position, -(1l << 53), 1l << 53, record, q_start_place, b);
  }
  if (table) {
    s.table = b * table_stride;
    if (right && s.keys > 0)
      right = names_blocks(table + table_begin + s.table, 0, (s.keys - 1) / k_len + 1, blocks, record, table_place,
                           b * columns, butterfly_room);
  } else {
    s.k = s.outer * k_outer + s.row * k_row;
    s.v = s.outer * v_outer + s.row * v_row;
  }
  if (right && s.queries > 0 && s.keys > 0) {
    right = is_within(s.queries, 0, most_queries, record, queries_place, b) &&
            is_within(s.keys, 0, most_keys, record, keys_place, b);
    if (right && mask_indptr) {
      mask_indptr += mask_indptr_begin;
      right = is_part(mask_indptr, mask_indptr_wide, mask_indptr_stride, b, packed_bytes, record, mask_indptr_place);
      s.packed = entry(mask_indptr, mask_indptr_wide, b * mask_indptr_stride);
      const long bytes = entry(mask_indptr, mask_indptr_wide, (b + 1) * mask_indptr_stride) - s.packed;
      if (right && s.queries > bytes * 8 / s.keys) {
        if (LANE == 0) offend(record, packed_place, b, bytes);
        right = false;
      }
    }
  }
  if (!right) s.queries = 0;
  if (LANE == 0) ((global Sequence*)(sequences + sequences_begin))[b] = s;
}
