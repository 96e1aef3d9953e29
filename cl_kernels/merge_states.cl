// lse = m + log sum_s exp(lse_s - m), m = max_s lse_s;   out = sum_s exp(lse_s - lse) out_s     Dao et al., 2022
//
// LANES work-items share a row (t, h). First its shares, into scratch; then head_dim is swept with one register of out:
//
//   share[row,s] = exp(lse_s - m) / sum      or UNSEEN where lse_s is -inf: that part is not read
//
//   X, Y   types of the parts and of out
#include "cl_kernels/merge_states.clh"
#include "cl_kernels/support/exp.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define Y f32
#endif

#define UNSEEN -1.0f  // no share is negative

kernel void merge_states(
    global const TYPE(X)* parts, global const float* partial_lse, global TYPE(Y)* out, global float* lse,
    global float* shares, const MergeStatesArguments args) {
  const long row = get_global_id(1), t = row / args.heads, h = row % args.heads;
  const bool inside = row < args.rows;  // all meet at the barrier
  partial_lse += args.partial_lse_begin + t * args.lse_token + h * args.lse_head;
  shares += args.shares_begin + row * args.states;
  float m = -INFINITY;
  for (long s = 0; inside && s < args.states; ++s) m = fmax(m, partial_lse[s * args.lse_state]);
  for (long s = LANE; inside && s < args.states; s += LANES) {
    const float part = partial_lse[s * args.lse_state];
    shares[s] = part == -INFINITY ? UNSEEN : EXP(1)(part - m);
  }
  group_barrier();
  if (!inside) return;

  // Each lane adds them up in the order of s.
  float sum = 0;
  for (long s = 0; s < args.states; ++s) sum += shares[s] == UNSEEN ? 0 : shares[s];
  if (LANE == 0 && lse)
    lse[args.lse_begin + t * args.lse_out_token + h * args.lse_out_head] = sum == 0 ? -INFINITY : m + log(sum);

  parts += args.parts_begin + t * args.parts_token + h * args.parts_head;
  out += args.out_begin + t * args.out_token + h * args.out_head;
  const float inverse = 1 / sum;  // of no use, and not used, where nothing was seen
  const long parts_state = args.parts_state;  // read in the loop, it costs 10 registers on sm_80
#define MERGE(N)                                                                                    \
  VECTOR(N) of_parts = 0;                                                                           \
  for (long s = 0; s < args.states; ++s)                                                            \
    if (shares[s] != UNSEEN)                                                                        \
      of_parts = fma((VECTOR(N))(shares[s] * inverse), LOAD(X, N)(parts + s * parts_state, i), of_parts); \
  STORE(Y, N)(of_parts, out, i);
  FOR_ROW(i, args.dim, MERGE)
}
