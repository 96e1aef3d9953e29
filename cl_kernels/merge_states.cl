// lse = m + log sum_s exp(lse_s - m), m = max_s lse_s;   out = sum_s exp(lse_s - lse) out_s     Dao et al., 2022
//
// LANES work-items share a row (t, h). First its shares, into scratch; then head_dim is swept with one register of out:
//
//   share[row,s] = exp(lse_s - m) / sum      or UNSEEN where lse_s is -inf: that part is not read
//
//   X, Y   types of the parts and of out
#include "cl_kernels/support/exp.clh"
#include "cl_kernels/support/rows.clh"

#ifndef X
#define X f32
#define Y f32
#endif

#define UNSEEN -1.0f  // no share is negative

kernel void merge_states(global const TYPE(X)* parts, long parts_begin, long parts_state, long parts_token,
                         long parts_head, global const float* partial_lse, long partial_lse_begin, long lse_state,
                         long lse_token, long lse_head, global TYPE(Y)* out, long out_begin, long out_token,
                         long out_head, global float* lse, long lse_begin, long lse_out_token, long lse_out_head,
                         global float* shares, long shares_begin, long rows, long heads, long states, long dim) {
  const long row = get_global_id(1), t = row / heads, h = row % heads;
  const bool inside = row < rows;  // all meet at the barrier
  partial_lse += partial_lse_begin + t * lse_token + h * lse_head;
  shares += shares_begin + row * states;
  float m = -INFINITY;
  for (long s = 0; inside && s < states; ++s) m = fmax(m, partial_lse[s * lse_state]);
  for (long s = LANE; inside && s < states; s += LANES) {
    const float part = partial_lse[s * lse_state];
    shares[s] = part == -INFINITY ? UNSEEN : EXP(1)(part - m);
  }
  meet_all();
  if (!inside) return;

  // Each lane adds them up in the order of s.
  float sum = 0;
  for (long s = 0; s < states; ++s) sum += shares[s] == UNSEEN ? 0 : shares[s];
  if (LANE == 0 && lse) lse[lse_begin + t * lse_out_token + h * lse_out_head] = sum == 0 ? -INFINITY : m + log(sum);

  parts += parts_begin + t * parts_token + h * parts_head;
  out += out_begin + t * out_token + h * out_head;
  const float inverse = 1 / sum;  // of no use, and not used, where nothing was seen
#define MERGE(N)                                                                        \
  VECTOR(N) of_parts = 0;                                                               \
  for (long s = 0; s < states; ++s)                                                     \
    if (shares[s] != UNSEEN)                                                            \
      of_parts = fma((VECTOR(N))(shares[s] * inverse), LOAD(X, N)(parts + s * parts_state, i), of_parts); \
  STORE(Y, N)(of_parts, out, i);
  FOR_ROW(i, dim, MERGE)
}
