// angle[t,i] = positions[axis[i],t] * inv_freq[i];   cos, sin = magnitude * (cos, sin)(angle)      Su et al., 2021
//
// In double, a product's rounding included: a position of 10^6 loses no accuracy, and the last rounding is the only one
// that shows in f32.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF  // the angle is rounded before it is reduced
#include "cl_kernels/support/offence.clh"

// |angle| below this is reduced here; above, the quotient would outgrow the parts of pi/2, and the library does it.
#define REACH 0x1p31

// r = angle - k pi/2, |r| <= pi/4, pi/2 in three parts (Cody and Waite, 1980): the first two have 22 bits, so that
// their products with k < 2^31 are exact, and so is the first difference. Taylor's series to r^15 and r^16 then lie
// within 1e-14. k is rounded by adding 1.5 * 2^52, whose last bits hold it as an integer.
static inline double2 cos_and_sin(double angle) {
  if (!(fabs(angle) < REACH)) return (double2)(cos(angle), sin(angle));
  const double two_over_pi = 0x1.45f306dc9c883p-1, to_integer = 0x1.8p52;
  const double part1 = 0x1.921fbp+0, part2 = 0x1.5110bp-22, part3 = 0x1.18469898cc517p-44;
  const double shifted = angle * two_over_pi + to_integer, k = shifted - to_integer;
  const ulong quadrant = as_ulong(shifted);
  const double r = ((angle - k * part1) - k * part2) - k * part3, z = r * r;
  double s = -1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = s * z * r + r;
  double c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = c * z + 1;
  const bool swap = quadrant & 1;
  const double sine = swap ? c : s, cosine = swap ? s : c;
  return (double2)((quadrant + 1) & 2 ? -cosine : cosine, quadrant & 2 ? -sine : sine);
}

// Neighbouring work-items have neighbouring pairs; each goes through `pairs_each` of them and `tokens_each` tokens.
kernel void rope_table(global const int* positions, long positions_begin, long axis_stride, long token_stride,
                       int position_words, global const float* inv_freq, long inv_freq_begin, long inv_freq_row,
                       int frequency_rows, global const int* axes, long axes_begin, long axes_stride,
                       global float* cosine, long cosine_begin, long cosine_stride, global float* sine,
                       long sine_begin, long sine_stride, long axis_count, long tokens, long pairs, long tokens_each,
                       long pairs_each, float magnitude, global int* record, int place) {
  const long first = get_group_id(0) * tokens_each, end = min(first + tokens_each, tokens);
  inv_freq += inv_freq_begin;
  const long from = get_global_id(1) * pairs_each, to = min(from + pairs_each, pairs);
  for (long i = from; i < to; ++i) {
    const long axis = axes ? axes[axes_begin + i * axes_stride] : 0;
    if (axis < 0 || axis >= axis_count) {
      if (get_group_id(0) == 0) offend(record, place, i, axis);
      continue;
    }
    const double frequency =
        frequency_rows == 2 ? (double)inv_freq[i] + inv_freq[inv_freq_row + i] : (double)inv_freq[i];
    for (long t = first; t < end; ++t) {
      const long at = positions_begin + axis * axis_stride + t * token_stride;
      const long position = position_words == 2 ? ((global const long*)positions)[at] : positions[at];
      const double2 turn = cos_and_sin((double)position * frequency) * magnitude;
      cosine[cosine_begin + t * cosine_stride + i] = convert_float(turn.x);
      sine[sine_begin + t * sine_stride + i] = convert_float(turn.y);
    }
  }
}
