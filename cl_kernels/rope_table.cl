// angle[t,i] = positions[axis[i],t] * inv_freq[i];   cos, sin = magnitude * (cos, sin)(angle)      Su et al., 2021
//
// In double, a product's rounding included: a position of 10^6 loses no accuracy, and the last rounding is the only one
// that shows in f32. A device without doubles computes the same ones in integers.
#include "cl_kernels/rope_table.clh"
#include "cl_kernels/support/double.clh"
#include "cl_kernels/support/fault.clh"
#ifdef FP64
#include "cl_kernels/rope_table/sincos_doubles.clh"
#else
#include "cl_kernels/rope_table/sincos_integers.clh"
#endif

// per-group shape: neighbouring work-items have neighbouring pairs, and go through `tokens_each` tokens with the
// frequency of one. per-item shape: a work-item has a token's row.
kernel void rope_table(
    global const void* positions, global const float* inv_freq, global const int* axes, global float* cosine,
    global float* sine, global int* faults, const RopeTableArguments args) {
  const long first = get_group_id(0) * args.tokens_each, end = min(first + args.tokens_each, args.tokens);
  inv_freq += args.inv_freq_begin;
  const long from = get_global_id(1) * args.pairs_each, to = min(from + args.pairs_each, args.pairs);
  for (long i = from; i < to; i += WIDE) {
    const int count = (int)min((long)WIDE, to - i);
    Double frequency[WIDE];
    long place_of[WIDE];  // of its axis' first position; -1: there is no such axis
    for (int e = 0; e < WIDE; ++e) frequency[e] = OF_FLOAT(0.0f), place_of[e] = -1;
    for (int e = 0; e < count; ++e) {
      const long axis = axes ? axes[args.axes_begin + (i + e) * args.axes_stride] : 0;
      if (axis >= 0 && axis < args.axis_count)
        place_of[e] = args.positions_begin + axis * args.axis_stride;
      else if (get_group_id(0) == 0)
        report_fault(faults, args.fault, i + e, axis);
      frequency[e] = OF_FLOAT(inv_freq[i + e]);
      if (args.frequency_rows == 2) frequency[e] = SUM(frequency[e], OF_FLOAT(inv_freq[args.inv_freq_row + i + e]));
    }
    for (long t = first; t < end; ++t) {
      Double angle[WIDE];
      float of_cosine[WIDE], of_sine[WIDE];
      for (int e = 0; e < WIDE; ++e) {
        const long at = place_of[e] + t * args.token_stride;
        long position = 0;
        if (place_of[e] >= 0)
          position =
              args.position_words == 2 ? ((global const long*)positions)[at] : ((global const int*)positions)[at];
        angle[e] = PRODUCT(OF_LONG(position), frequency[e]);
      }
      turn(angle, count, args.magnitude, of_cosine, of_sine);
      for (int e = 0; e < count; ++e) {
        if (place_of[e] < 0) continue;
        cosine[args.cosine_begin + t * args.cosine_stride + i + e] = of_cosine[e];
        sine[args.sine_begin + t * args.sine_stride + i + e] = of_sine[e];
      }
    }
  }
}
