// softmax(score(q K^T)) V over the keys of each sequence, part by part, and the parts put together.
//                        Dao et al., 2022; Kwon et al., 2023; merging: Milakov & Gimelshein, 2018; Ye et al., 2025
//
//   m = max s_j      l = sum exp(s_j - m)      o = sum exp(s_j - m) v_j      y = o / l      lse = m + log l
//
//   K, V        types of the two             K_CODES, V_CODES    it is i8
//   K_PIECE..   dims of a token that lie side by side: 16, 8, 4, 1 (any number); 0: all
//   V_SLOTS     16 slots and more of a dim of V lie side by side
//   DIM         no head is wider             ROWS      rows that share each load of K and V
//   UNIT_ROWS   no unit has more rows (cpu shape)      KEY_LANES  lanes that share a key (gpu shape)
//
// gpu report, one row, f16: -D K=f16 -D V=f16 -D K_PIECE=0 -D V_PIECE=0 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, f16, of four heads: -D K=f16 -D V=f16 -D K_PIECE=0 -D V_PIECE=0 -D DIM=128 -D ROWS=4 -D KEY_LANES=16
// gpu report, one row, f16, as vLLM: -D K=f16 -D V=f16 -D K_PIECE=8 -D V_PIECE=1 -D V_SLOTS=1 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
#ifndef K
#define K f32
#define V f32
#define K_PIECE 0
#define V_PIECE 0
#define DIM 128
#define ROWS 4
#define UNIT_ROWS 32
#define KEY_LANES 16
#endif

// What both shapes include stands before them: a header is embedded where it is first named.
#include "cl_kernels/attention/scores.clh"
#include "cl_kernels/support/rows.clh"

#ifdef CPU_SHAPE
#include "cl_kernels/attention/cpu_shape.clh"
#else
#include "cl_kernels/attention/gpu_shape.clh"
#endif

// Units of a sequence begin behind those of the ones before it. Where queries are ragged, floor(q_row * group /
// unit_rows)
// + b is no less than the units before: counted without reading the others.
static inline long first_unit(const Problem* p, long q_row, int b) {
  return p->tiles > 0 ? b * p->tiles : q_row * p->group / p->unit_rows + b;
}

// Groups: units of rows, heads of units, parts.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attend(
    const Problem problem, global const long* sequences, long sequences_begin, global const uchar* q, long q_begin,
    global const TYPE(K)* k, long k_begin, global const TYPE(V)* v, long v_begin, global const int* table,
    long table_begin, global const uchar* bias, long bias_begin, global const uchar* mask, long mask_begin,
    global const uchar* packed, long packed_begin, global const float* slopes, long slopes_begin,
    global const float* sinks, long sinks_begin, global const float* k_scale, long k_scale_begin,
    global const float* k_offset, long k_offset_begin, global const float* v_scale, long v_scale_begin,
    global const float* v_offset, long v_offset_begin, global uchar* out, long out_begin, global float* lse,
    long lse_begin, global const float* out_scale, long out_scale_begin, global const float* out_offset,
    long out_offset_begin, global float* partial, long partial_begin, global float* partial_state,
    long partial_state_begin) {
  // Absent views are null and begin at 0. Begins of q, bias and out are bytes: their types are met at run time.
  const Problem* const p = &problem;
  ROOM Buffers buffers;
  ROOM Sequence s;
  ROOM const Buffers* const m = &buffers;
  if (LANE == 0)
    buffers = (Buffers){sequences + sequences_begin, q + q_begin, k + k_begin, v + v_begin, table + table_begin,
                        bias + bias_begin, mask + mask_begin, packed + packed_begin, slopes + slopes_begin,
                        sinks + sinks_begin, k_scale + k_scale_begin, k_offset + k_offset_begin,
                        v_scale + v_scale_begin, v_offset + v_offset_begin, out + out_begin, lse + lse_begin,
                        out_scale + out_scale_begin, out_offset + out_offset_begin, partial + partial_begin,
                        partial_state + partial_state_begin};
  meet_all();
  const long unit = get_group_id(0), heads = get_group_id(1);
  const int part = get_group_id(2);
  // The last sequence whose units begin at this one or before.
  int low = p->first_sequence, high = p->first_sequence + p->batch;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_unit(p, sequence_at(m, middle)->q_row, middle - p->first_sequence) <= unit)
      low = middle;
    else
      high = middle;
  }
  if (LANE == 0) s = *sequence_at(m, low);
  meet_all();
  const long first_row = (unit - first_unit(p, s.q_row, low - p->first_sequence)) * p->unit_rows;
  const bool is_none = first_row < 0 || first_row >= s.queries * p->group;
#ifdef CPU_SHAPE
  if (!is_none) attend_part(p, m, &s, low, first_row, heads * p->unit_heads, part);
#else
  ATTEND_ROOM;
  if (!is_none) attend_part(p, m, &s, low, first_row, (int)heads, part, &room);
#endif
}

// Groups: rows of a sequence, sequences. Parts that a row does not see were not written.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void merge(
    const Problem problem, global const long* sequences, long sequences_begin, global const float* sinks,
    long sinks_begin, global uchar* out, long out_begin, global float* lse, long lse_begin,
    global const float* out_scale, long out_scale_begin, global const float* out_offset, long out_offset_begin,
    global float* partial, long partial_begin, global float* partial_state, long partial_state_begin) {
  const Problem* const p = &problem;
  ROOM Buffers buffers;
  ROOM Sequence s;
  ROOM const Buffers* const m = &buffers;
  if (LANE == 0) {
    buffers.sequences = sequences + sequences_begin;
    buffers.sinks = sinks + sinks_begin;
    buffers.out = out + out_begin;
    buffers.lse = lse + lse_begin;
    buffers.out_scale = out_scale + out_scale_begin;
    buffers.out_offset = out_offset + out_offset_begin;
    buffers.partial = partial + partial_begin;
    buffers.partial_state = partial_state + partial_state_begin;
    s = *sequence_at(m, p->first_sequence + (int)get_group_id(1));
  }
  meet_all();
  const long query = get_group_id(0) / p->q_heads, head = get_group_id(0) % p->q_heads;
  if (query >= s.queries) return;
  const KeyRange keys = visible_keys(p, &s, query);
  const long first = keys.begin / p->split, last = keys.begin < keys.end ? (keys.end - 1) / p->split + 1 : first;
  State whole = {-INFINITY, 0};
  for (long part = first; part < last; ++part)
    whole.max = fmax(whole.max, m->partial_state[2 * partial_row(p, &s, part, query, head)]);
  float sums[(DIM + LANES - 1) / LANES];
  for (int i = 0; i < (DIM + LANES - 1) / LANES; ++i) sums[i] = 0;
  for (long part = first; part < last; ++part) {
    const long at = partial_row(p, &s, part, query, head);
    const float weight = weight_of(m->partial_state[2 * at], whole.max);
    whole.sum = fma(m->partial_state[2 * at + 1], weight, whole.sum);
    for (int i = 0; i < (DIM + LANES - 1) / LANES; ++i) {
      const int d = LANE + i * LANES;
      if (d < p->v.dim) sums[i] = fma(m->partial[at * p->v.dim + d], weight, sums[i]);
    }
  }
  const float factor = final_factor(p, m, head, &whole);
  const long row = output_row(p, &s, query, head);
  for (int i = 0; i < (DIM + LANES - 1) / LANES; ++i) {
    const int d = LANE + i * LANES;
    if (d < p->v.dim) write_output(p, m, row, head, d, sums[i] * factor);
  }
  if (LANE == 0) write_lse(p, m, &s, query, head, whole);
}
