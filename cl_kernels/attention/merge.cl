// The parts of a row's keys put together, by scores.clh's join_parts; then y = o / l and lse = m + log l.
//                                                          Milakov & Gimelshein, 2018; Ye et al., 2025
#define K u8
#define V u8

#include "cl_kernels/attention/scores.clh"
#include "cl_kernels/support/butterfly.clh"

// Sums that a lane keeps: in the per-item shape it is alone with its row.
#ifdef PER_ITEM
#define SUMS 512
#else
#define SUMS 1
#endif

// Groups: rows of a sequence, sequences. Parts that a row does not see were not written.
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void merge(
    global const long* sequences, global const float* sinks, global uchar* out, global float* lse,
    global const float* out_scale, global const float* out_offset, global float* partial, global float* partial_state,
    const MergeArguments args) {
  const Problem* const p = &args.problem;
  SHARED Buffers buffers;
  SHARED Sequence s;
  SHARED const Buffers* const m = &buffers;
  if (LANE == 0) {
    buffers.sequences = sequences + args.sequences_begin;
    buffers.sinks = sinks + args.sinks_begin;
    buffers.out = out + args.out_begin;
    buffers.lse = lse + args.lse_begin;
    buffers.out_scale = out_scale + args.out_scale_begin;
    buffers.out_offset = out_offset + args.out_offset_begin;
    buffers.partial = partial + args.partial_begin;
    buffers.partial_state = partial_state + args.partial_state_begin;
    s = *sequence_at(m, p->first_sequence + (int)get_group_id(1));
  }
  group_barrier();
  const long query = get_group_id(0) / p->q_heads, head = get_group_id(0) % p->q_heads;
  if (query >= s.queries) return;
  const KeyRange keys = visible_keys(p, &s, query);
  const long first = keys.begin / p->split, last = keys.begin < keys.end ? (keys.end - 1) / p->split + 1 : first;
  const long row = output_row(p, &s, query, head);
  for (int begin = 0; begin < p->v.dim; begin += SUMS * LANES) {
    float sums[SUMS];
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    State state = {-INFINITY, 0};
    const int count = min(SUMS, (p->v.dim - begin - LANE + LANES - 1) / LANES);
    for (long part = first; part < last; ++part) {
      const long at = partial_row(p, &s, part, query, head);
      const State own = {m->partial_state[2 * at], m->partial_state[2 * at + 1]};
      const KeyRange of_part = {part * p->split, (part + 1) * p->split};
      Shares share;
      state = join_parts(keys, of_part, state, own, &share);
      global const float* const values = m->partial + at * p->v.dim + begin + LANE;
      for (int i = 0; i < count; ++i) sums[i] = joined(sums[i], values[i * LANES], share);
    }
    const float factor = final_factor(p, m, head, &state);
    for (int i = 0; i < count; ++i) write_output(p, m, row, head, begin + LANE + i * LANES, sums[i] * factor);
    if (begin == 0 && LANE == 0) write_lse(p, m, &s, query, head, state);
  }
}
