// angle[t,i] = positions[axis[i],t] * inv_freq[i];   cos, sin = magnitude * (cos, sin)(angle)      Su et al., 2021
//
// In double, a product's rounding included: a position of 10^6 loses no accuracy, and the last rounding is the only one
// that shows in f32. A device without doubles computes the same ones in integers.
#include "cl_kernels/support/double.clh"
#include "cl_kernels/support/offence.clh"
#ifdef FP64
#include "cl_kernels/rope_table/turn_doubles.clh"
#else
#include "cl_kernels/rope_table/turn_integers.clh"
#endif

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
    Double frequency[WIDE];
    long place_of[WIDE];  // of its axis' first position; -1: there is no such axis
    for (int e = 0; e < WIDE; ++e) frequency[e] = OF_FLOAT(0.0f), place_of[e] = -1;
    for (int e = 0; e < count; ++e) {
      const long axis = axes ? axes[axes_begin + (i + e) * axes_stride] : 0;
      if (axis >= 0 && axis < axis_count)
        place_of[e] = positions_begin + axis * axis_stride;
      else if (get_group_id(0) == 0)
        offend(record, place, i + e, axis);
      frequency[e] = OF_FLOAT(inv_freq[i + e]);
      if (frequency_rows == 2) frequency[e] = SUM(frequency[e], OF_FLOAT(inv_freq[inv_freq_row + i + e]));
    }
    for (long t = first; t < end; ++t) {
      Double angle[WIDE];
      float of_cosine[WIDE], of_sine[WIDE];
      for (int e = 0; e < WIDE; ++e) {
        const long at = place_of[e] + t * token_stride;
        long position = 0;
        if (place_of[e] >= 0) position = position_words == 2 ? ((global const long*)positions)[at] : positions[at];
        angle[e] = PRODUCT(OF_LONG(position), frequency[e]);
      }
      turn(angle, count, magnitude, of_cosine, of_sine);
      for (int e = 0; e < count; ++e) {
        if (place_of[e] < 0) continue;
        cosine[cosine_begin + t * cosine_stride + i + e] = of_cosine[e];
        sine[sine_begin + t * sine_stride + i + e] = of_sine[e];
      }
    }
  }
}
