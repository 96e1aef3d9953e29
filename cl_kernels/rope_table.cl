// angle[t,i] = positions[axis[i],t] * inv_freq[i];   cos, sin = magnitude * (cos, sin)(angle)      Su et al., 2021
//
// In double, a product's rounding included: a position of 10^6 loses no accuracy, and the last rounding is the only one
// that shows in f32.
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF  // the angle is rounded before it is reduced
#include "cl_kernels/support/offence.clh"

// Angles that are turned at a time.
#ifdef CPU_SHAPE
#define WIDE 8
#define DOUBLES double8
#define ULONGS ulong8
#define AS_ULONGS as_ulong8
#define SPREAD(v, array) vstore8(v, 0, array)
#define GATHER(array) vload8(0, array)
#else
#define WIDE 1
#define DOUBLES double
#define ULONGS ulong
#define AS_ULONGS as_ulong
#define SPREAD(v, array) (array)[0] = (v)
#define GATHER(array) (array)[0]
#endif

// |angle| below this is reduced here; above, the quotient would outgrow the parts of pi/2, and the library does it.
#define REACH 0x1p31

// r = angle - k pi/2, |r| <= pi/4, pi/2 in three parts (Cody and Waite, 1980): the first two have 22 bits, so that
// their products with k < 2^31 are exact, and so is the first difference. Taylor's series to r^15 and r^16 then lie
// within 1e-14. k is rounded by adding 1.5 * 2^52, whose last bits hold it as an integer.
static inline void turn(DOUBLES angle, DOUBLES* cosine, DOUBLES* sine) {
  const double two_over_pi = 0x1.45f306dc9c883p-1, to_integer = 0x1.8p52;
  const double part1 = 0x1.921fbp+0, part2 = 0x1.5110bp-22, part3 = 0x1.18469898cc517p-44;
  const DOUBLES shifted = angle * two_over_pi + to_integer, k = shifted - to_integer;
  const ULONGS quadrant = AS_ULONGS(shifted), one = 1, two = 2;
  const DOUBLES r = ((angle - k * part1) - k * part2) - k * part3, z = r * r;
  DOUBLES s = -1.0 / 1307674368000;
  s = s * z + 1.0 / 6227020800;
  s = s * z - 1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = s * z * r + r;
  DOUBLES c = 1.0 / 20922789888000;
  c = c * z - 1.0 / 87178291200;
  c = c * z + 1.0 / 479001600;
  c = c * z - 1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = c * z + 1;
  const DOUBLES sin_k = (quadrant & one) == one ? c : s, cos_k = (quadrant & one) == one ? s : c;
  *sine = (quadrant & two) == two ? -sin_k : sin_k;
  *cosine = ((quadrant + one) & two) == two ? -cos_k : cos_k;
}

// gpu shape: neighbouring work-items have neighbouring pairs, and go through `tokens_each` tokens with the frequency of
// one. cpu shape: a work-item has a token's row.
kernel void rope_table(global const int* positions, long positions_begin, long axis_stride, long token_stride,
                       int position_words, global const float* inv_freq, long inv_freq_begin, long inv_freq_row,
                       int frequency_rows, global const int* axes, long axes_begin, long axes_stride,
                       global float* cosine, long cosine_begin, long cosine_stride, global float* sine,
                       long sine_begin, long sine_stride, long axis_count, long tokens, long pairs, long tokens_each,
                       long pairs_each, float magnitude, global int* record, int place) {
  const long first = get_group_id(0) * tokens_each, end = min(first + tokens_each, tokens);
  inv_freq += inv_freq_begin;
  const long from = get_global_id(1) * pairs_each, to = min(from + pairs_each, pairs);
  for (long i = from; i < to; i += WIDE) {
    const int count = (int)min((long)WIDE, to - i);
    double frequency[WIDE];
    long place_of[WIDE];  // of its axis' first position; -1: there is no such axis
    for (int e = 0; e < WIDE; ++e) frequency[e] = 0, place_of[e] = -1;
    for (int e = 0; e < count; ++e) {
      const long axis = axes ? axes[axes_begin + (i + e) * axes_stride] : 0;
      if (axis >= 0 && axis < axis_count)
        place_of[e] = positions_begin + axis * axis_stride;
      else if (get_group_id(0) == 0)
        offend(record, place, i + e, axis);
      frequency[e] = inv_freq[i + e];
      if (frequency_rows == 2) frequency[e] += inv_freq[inv_freq_row + i + e];
    }
    for (long t = first; t < end; ++t) {
      double angle[WIDE], of_cosine[WIDE], of_sine[WIDE];
      bool far = false;
      for (int e = 0; e < WIDE; ++e) {
        const long at = place_of[e] + t * token_stride;
        long position = 0;
        if (place_of[e] >= 0) position = position_words == 2 ? ((global const long*)positions)[at] : positions[at];
        angle[e] = (double)position * frequency[e];
        far |= !(fabs(angle[e]) < REACH);
      }
      DOUBLES cosines, sines;
      turn(GATHER(angle), &cosines, &sines);
      SPREAD(cosines * magnitude, of_cosine);
      SPREAD(sines * magnitude, of_sine);
      for (int e = 0; far && e < count; ++e) {
        of_cosine[e] = cos(angle[e]) * magnitude;
        of_sine[e] = sin(angle[e]) * magnitude;
      }
      for (int e = 0; e < count; ++e) {
        if (place_of[e] < 0) continue;
        cosine[cosine_begin + t * cosine_stride + i + e] = convert_float(of_cosine[e]);
        sine[sine_begin + t * sine_stride + i + e] = convert_float(of_sine[e]);
      }
    }
  }
}
