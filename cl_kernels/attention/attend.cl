// softmax(score(q K^T)) V over the keys of each sequence, part by part; merge.cl puts the parts together.
//                                                                          Dao et al., 2022; Kwon et al., 2023
//
//   m = max s_j      l = sum exp(s_j - m)      o = sum exp(s_j - m) v_j      y = o / l      lse = m + log l
//
//   K, V        types of the two             K_CODES, V_CODES    it is i8
//   K_PIECE..   dims of a token that lie side by side: 16, 8, 4, 1 (any number); 0: all
//   V_SLOTS     16 slots and more of a dim of V lie side by side
//   DIM         no head is wider             ROWS      rows that share each load of K and V
//   UNIT_ROWS   no unit has more rows (per-item shape)      KEY_LANES  lanes that share a key (per-group shape)
//
// gpu report, one row, f16: -D K=f16 -D V=f16 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, f16, of four heads: -D K=f16 -D V=f16 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=4 -D KEY_LANES=16
// gpu report, one row, f16, as vLLM: -D K=f16 -D V=f16 -D K_PIECE=8 -D V_PIECE=1 -D V_SLOTS=1 -D LANES=256 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, bf16: -D K=bf16 -D V=bf16 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, f32: -D K=f32 -D V=f32 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, int8: -D K=i8 -D V=i8 -D K_CODES=1 -D V_CODES=1 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=1 -D KEY_LANES=16
// gpu report, one row, int8, of four heads: -D K=i8 -D V=i8 -D K_CODES=1 -D V_CODES=1 -D K_PIECE=0 -D V_PIECE=0 -D LANES=256 -D DIM=128 -D ROWS=4 -D KEY_LANES=16
// gpu report says: loads of K and V do (int8 by 8), the others are for a row or a tile once, or for the rest of a head
// gpu report says of warps, int8: scales and offsets take more than 64 registers; no GPU has shown that warps lack
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
#include "cl_kernels/attention/arguments.clh"
#include "cl_kernels/support/rows.clh"

#ifdef PER_ITEM
#include "cl_kernels/attention/per_item.clh"
#else
#include "cl_kernels/attention/per_group.clh"
#endif

// Groups: units of rows, heads of units, parts.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void attend(ATTENTION_PARAMETERS) {
  const Problem* const p = &args.problem;
  SHARED Buffers buffers;
  SHARED Sequence s;
  SHARED const Buffers* const m = &buffers;
  if (LANE == 0) buffers = BUFFERS_OF_ARGUMENTS;
  group_barrier();
  const long unit = get_group_id(0), heads = get_group_id(1);
  const int part = get_group_id(2), b = sequence_of_unit(p, m, unit);
  if (LANE == 0) s = *sequence_at(m, b);
  group_barrier();
  const long first_row = first_row_of(p, &s, b, unit);
#ifdef PER_ITEM
  if (first_row >= 0) attend_part(p, m, &s, b, first_row, heads * p->unit_heads, part);
#else
  ATTEND_ROOM;
  if (first_row >= 0) attend_part(p, m, &s, b, first_row, (int)heads, part, &room);
#endif
}
