// Attention of many rows, in the per-group shape: a group takes ROWS rows (query, head of the group) of one kv head.
//                                                          Dao et al., 2022; Dao, 2023 (FlashAttention-2)
//   for each tile of 64 keys that some row sees
//     S = q K^T                                     prefill_products.clh: register tiles
//     S -> P, the softmax so far, O's factor        LANES / ROWS lanes a row, butterflies for the maximum
//     O = O * factor + P V                          register tiles; one division at the end
//   at the end of a part of the keys                joins (m, l, O) of the parts before it, whose O lies in scratch
//
// A lane keeps its share of a row's sum of weights until the end. Tiles begin at multiples of 64 keys, and what a tile
// without keys leaves of a row is the row: so a chunk of a prompt gives the bits of the whole.
//
//   DIM    no head is wider      ROWS    of a group, LANE_ROWS of a lane
//
// gpu report, tiled, dim 64: -D LANES=256 -D DIM=64 -D ROWS=64
// gpu report, tiled, dim 128: -D LANES=256 -D DIM=128 -D ROWS=64
// gpu report, tiled, dim 256: -D LANES=256 -D DIM=256 -D ROWS=32
// gpu report, tiled, dim 576: -D LANES=256 -D DIM=576 -D ROWS=16
#ifndef DIM
#define DIM 128
#define ROWS 32
#endif
#define K u8  // bytes: the types of K and V are arguments
#define V u8

#include "cl_kernels/attention/arguments.clh"

#ifdef PER_GROUP
#include "cl_kernels/attention/prefill_products.clh"

#define ROW_LANES (LANES / ROWS)
#define KEYS_OF_LANE (TILE / ROW_LANES)

// Where the keys first .. last of a tile lie.
static inline void locate_tile(const Problem* p, SHARED const Buffers* m, SHARED const Sequence* s, int kv_head,
                               long tile, int first, int last, local Room* room) {
  LOOP for (int t = first + LANE; t < last; t += LANES) {
    const long j = tile + t;
    room->k_at[t] = key_offset(p, m, s, &p->k, s->k, j) + kv_head * p->k.head;
    room->v_at[t] = key_offset(p, m, s, &p->v, s->v, j) + kv_head * p->v.head;
    long outer = s->outer, token = s->row + j;
    if (p->block_size != 0) {
      outer = m->table[s->table + j / p->block_size];
      token = j % p->block_size;
    }
    room->outer[t] = outer;
    room->token[t] = token;
  }
}

static inline __attribute__((always_inline)) void attend_tile(const Problem* p, SHARED const Buffers* m,
                                                              SHARED const Sequence* s, int b, long first_row,
                                                              int kv_head, int part, Form q_form, Form k_form,
                                                              Form v_form, local Room* room) {
  const int rows = (int)min((long)ROWS, s->queries * p->group - first_row);
  for (int r = LANE; r < rows; r += LANES) {
    local Row* const row = &room->row[r];
    row->query = (first_row + r) / p->group;
    row->head = kv_head * p->group + (int)((first_row + r) % p->group);
    row->q = s->q_outer * p->q.outer + (s->q_row + row->query) * p->q.row + row->head * p->q.head;
    row->keys = visible_keys(p, s, row->query);
  }
  room->lane[LANE] = LANE;
  group_barrier();
  // Ranges grow with the query: the first row's begin and the last one's end bound all.
  local const KeyRange* const low = &room->row[0].keys;
  local const KeyRange* const high = &room->row[rows - 1].keys;
  long begin = low->begin, end = high->end;
  if (p->splits > 1) {
    begin = max(begin, part * p->split);
    end = min(end, (part + 1) * p->split);
    if (begin >= end) return;
  }
  const bool masked = m->mask || m->packed || m->bias;
  const bool scored = m->bias || m->slopes || p->softcap > 0;
  // The bounds of the loops lie in local memory: the products need the registers.
  if (LANE == 0) {
    room->keys = (KeyRange){begin, end};
    room->part.end = begin / p->split * p->split;
  }
  bool is_last;
  do {
    if (LANE == 0) room->part = (KeyRange){room->part.end, room->part.end + p->split};
    group_barrier();
    Sums o;
    UNROLL
    for (int r = 0; r < LANE_ROWS; ++r)
      UNROLL
      for (int c = 0; c < LANE_CHUNKS; ++c) o.of[r][c] = 0;
    State state = {-INFINITY, 0};
    LOOP for (long tile = max(room->keys.begin, room->part.begin) / TILE * TILE;
              tile < min(room->keys.end, room->part.end); tile += TILE) {
      // The row whose weights this lane helps to make.
      const int lane = lane_anew(room), own = min(lane / ROW_LANES, rows - 1);
      const bool is_absent = lane / ROW_LANES >= rows;
      local const Row* const row = &room->row[own];
      local float* const weights = (local float*)(room->weights + own * WEIGHT_ROW);
      const long begin = room->keys.begin, end = room->keys.end;
      const int first = tile < begin ? (int)(begin - tile) : 0;
      const int last = end - tile < TILE ? (int)(end - tile) : TILE;
      const bool mixed = masked || first > 0 || last < TILE || low->end < tile + TILE || high->begin > tile;
      locate_tile(p, m, s, kv_head, tile, first, last, room);
      if (LANE == 0) room->is_any_seen = !masked;
      group_barrier();
      uint seen = 0;  // bit i: key i of this lane
      LOOP for (int i = 0; i < KEYS_OF_LANE; ++i) {
        const int t = lane % ROW_LANES + i * ROW_LANES;
        const long j = tile + t;
        if (is_absent || t < first || t >= last || j < row->keys.begin || j >= row->keys.end) continue;
        if (!masked || is_seen(p, m, s, b, row->head, row->query, j)) seen |= 1u << i;
      }
      if (seen != 0) room->is_any_seen = 1;
      group_barrier();
      // Barriers stand in no branch: a tile that masks hide from all rows has no dims and no keys.
      const bool is_any_seen = room->is_any_seen;
      score_tile(p, m, kv_head, is_any_seen ? p->k.dim : 0, rows, first, last, q_form, k_form, room);
      group_barrier();

      float most = -INFINITY;
      LOOP for (int i = 0; i < KEYS_OF_LANE; ++i) {
        if (!(seen >> i & 1)) continue;
        const int t = lane % ROW_LANES + i * ROW_LANES;
        float x = weights[t];
        if (scored) x = BIAS_AND_SOFTCAP(1)(p, bias_of(p, m, s, b, row->head, row->query, tile + t), x);
        weights[t] = x;
        most = fmax(most, x);
      }
      most = max_over(most, ROW_LANES, room->butterfly);
      float factor = 1;
      if (most > state.max) {
        factor = weight_of(state.max, most);
        state.max = most;
      }
      state.sum *= factor;
      LOOP for (int i = 0; i < KEYS_OF_LANE; ++i) {
        const int t = lane % ROW_LANES + i * ROW_LANES;
        const bool one = seen >> i & 1;
        const float weight = one ? weight_of(weights[t], state.max) : -1.0f;
        if (one) state.sum += weight;
        if (!is_absent) weights[t] = weight;
      }
      if (lane % ROW_LANES == 0 && !is_absent) room->factor[own] = factor;
      group_barrier();
      add_values(p, m, kv_head, rows, first, is_any_seen ? last : first, mixed, v_form, room, &o);
    }

    state.sum = sum_over(state.sum, ROW_LANES, room->butterfly);
    const bool has_before = room->part.begin > room->keys.begin;
    is_last = room->keys.end <= room->part.end;
    const int lane = lane_anew(room), own = lane / ROW_LANES;
    if (lane % ROW_LANES == 0 && own < rows) {
      local const Row* const row = &room->row[own];
      if (p->splits > 1) {
        const long at = partial_row(p, s, part, row->query, row->head);
        m->partial_state[2 * at] = state.max;
        m->partial_state[2 * at + 1] = state.sum;
      } else {
        Shares share = {-1, 1};
        if (has_before) state = join_parts(row->keys, room->part, room->state[own], state, &share);
        room->state[own] = state;
        room->share[own] = share;
        if (is_last) {
          room->factor[own] = final_factor(p, m, row->head, &state);
          write_lse(p, m, s, row->query, row->head, state);
        }
      }
    }
    LOOP for (int c = 0; c < (p->v.dim + 4 * SIDE - 1) / (4 * SIDE); ++c) {
      UNROLL
      for (int r = 0; r < LANE_ROWS; ++r) {
        float4 sums = 0;  // of[r][c], without an index that is not known to the compiler
        UNROLL
        for (int i = 0; i < LANE_CHUNKS; ++i) sums = i == c ? o.of[r][i] : sums;
        room->slice[(lane / SIDE * LANE_ROWS + r) * (SIDE + 1) + lane % SIDE] = sums;
      }
      group_barrier();
      LOOP for (int i = lane; i < rows * 4 * SIDE; i += LANES) {
        const int r = i / (4 * SIDE), d = c * (4 * SIDE) + i % (4 * SIDE);
        if (d >= p->v.dim) continue;
        float y = ((local const float*)room->slice)[r * (4 * SIDE + 4) + i % (4 * SIDE)];
        const long query = room->row[r].query;
        const int head = room->row[r].head;
        const long at = partial_row(p, s, p->splits > 1 ? part : 0, query, head) * p->v.dim + d;
        if (has_before && !(room->share[r].before < 0)) y = joined(m->partial[at], y, room->share[r]);
        if (p->splits > 1 || !is_last)
          m->partial[at] = y;
        else
          write_output(p, m, output_row(p, s, query, head), head, d, y * room->factor[r]);
      }
      group_barrier();
    }
  } while (!is_last);
}

// Groups: units of rows, kv heads, parts. Begins of K and V are bytes.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void prefill(ATTENTION_PARAMETERS) {
  const Problem* const p = &args.problem;
  local Buffers buffers;
  local Sequence s;
  local Room room;
  local const Buffers* const m = &buffers;
  if (LANE == 0) buffers = BUFFERS_OF_ARGUMENTS;
  group_barrier();
  const long unit = get_group_id(0);
  const int b = sequence_of_unit(p, m, unit);
  if (LANE == 0) s = *sequence_at(m, b);
  group_barrier();
  const long first_row = first_row_of(p, &s, b, unit);
  const Form q_form = {p->q_type, args.aligned};
  const Form k_form = {args.k_type, args.aligned}, v_form = {args.v_type, args.aligned};
  if (first_row >= 0)
    attend_tile(p, m, &s, b, first_row, get_group_id(1), get_group_id(2), q_form, k_form, v_form, &room);
}
#endif
