// Sequences of flash_attention: queries and keys, padded, ragged or in blocks. The work is in attention/attend.cl.
#include "cl_kernels/attention/sequences.clh"
#include "cl_kernels/flash_attention.clh"

// Are entries b and b + 1 of an indptr what they must be? It begins with 0, never falls and ends by `rows`.
static inline bool is_part(global const uchar* list, IndexList of, int b, long rows, global int* faults) {
  const long begin = entry(list, of.wide, b * of.stride), end = entry(list, of.wide, (b + 1) * of.stride);
  const long before = b > 0 ? entry(list, of.wide, (b - 1) * of.stride) : 0;
  return is_within(begin, before, b > 0 ? rows : 0, faults, of.fault, b) &&
         is_within(end, begin, rows, faults, of.fault, b + 1);
}

kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void sequences(
    global long* sequences, global const uchar* q_indptr, global const uchar* kv_indptr, global const uchar* kv_lens,
    global const uchar* q_start, global const uchar* mask_indptr, global const int* table, global int* faults,
    const FlashSequencesArguments args) {
  BUTTERFLY_ROOM;
  const int b = get_group_id(0);
  Sequence s = {.queries = args.q_len, .keys = args.k_len, .q_outer = b, .outer = b};
  bool right = true;
  if (q_indptr) {
    q_indptr += args.q_indptr_begin;
    right = is_part(q_indptr, args.q_indptr, b, args.q_len, faults);
    s.q_outer = 0;
    // Sequences are found by where their rows begin, an offender among them too.
    s.q_row = clamp(entry(q_indptr, args.q_indptr.wide, b * args.q_indptr.stride), 0l, args.q_len);
    s.queries = entry(q_indptr, args.q_indptr.wide, (b + 1) * args.q_indptr.stride) - s.q_row;
  }
  if (kv_indptr) {
    kv_indptr += args.kv_indptr_begin;
    right = right && is_part(kv_indptr, args.kv_indptr, b, args.k_len, faults);
    s.outer = 0;
    s.row = entry(kv_indptr, args.kv_indptr.wide, b * args.kv_indptr.stride);
    s.keys = entry(kv_indptr, args.kv_indptr.wide, (b + 1) * args.kv_indptr.stride) - s.row;
  }
  if (kv_lens) {
    s.keys = entry(kv_lens + args.kv_lens_begin, args.kv_lens.wide, b * args.kv_lens.stride);
    right = right && is_within(s.keys, 0, args.max_kv_len, faults, args.kv_lens.fault, b);
  }
  s.position = s.keys - s.queries;
  if (q_start) {
    s.position = entry(q_start + args.q_start_begin, args.q_start.wide, b * args.q_start.stride);
    right = right && is_within(s.position, -(1l << 53), 1l << 53, faults, args.q_start.fault, b);
  }
  if (table) {
    s.table = b * args.table_stride;
    if (right && s.keys > 0)
      right = names_blocks(table + args.table_begin + s.table, 0, (s.keys - 1) / args.k_len + 1, args.blocks, faults,
                           args.table_fault, b * args.columns, butterfly_room);
  } else {
    s.k = s.outer * args.k_outer + s.row * args.k_row;
    s.v = s.outer * args.v_outer + s.row * args.v_row;
  }
  if (right && s.queries > 0 && s.keys > 0) {
    right = is_within(s.queries, 0, args.max_queries, faults, args.queries_fault, b) &&
            is_within(s.keys, 0, args.max_keys, faults, args.keys_fault, b);
    if (right && mask_indptr) {
      mask_indptr += args.mask_indptr_begin;
      right = is_part(mask_indptr, args.mask_indptr, b, args.packed_bytes, faults);
      s.packed = entry(mask_indptr, args.mask_indptr.wide, b * args.mask_indptr.stride);
      const long bytes = entry(mask_indptr, args.mask_indptr.wide, (b + 1) * args.mask_indptr.stride) - s.packed;
      if (right && s.queries > bytes * 8 / s.keys) {
        if (LANE == 0) report_fault(faults, args.packed_fault, b, bytes);
        right = false;
      }
    }
  }
  if (!right) s.queries = 0;
  if (LANE == 0) ((global Sequence*)(sequences + args.sequences_begin))[b] = s;
}
