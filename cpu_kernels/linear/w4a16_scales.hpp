// What follows the dot products of a segment: its scales and offsets, and their roundings.
#pragma once

#include "cpu_kernels/linear/w4a16_panels.hpp"

namespace inlay::cpu {

// The roundings of a segment, the same for one row and for many: what `dot` adds to the total of a channel.
template <bool Offsets, class F> INLAY_INLINE F w4_add(F total, F dot, F scale, F offset, F sum, F step) {
  if constexpr (Offsets)
    return fma(fma(dot, scale, offset * sum), step, total);
  else
    return fma(dot * scale, step, total);
}

// The scales (and offsets) of a job's panels, [segments][width].
struct W4Scales {
  static constexpr index width = w4_int8_job_panels * w4_panel;
  float *scale = nullptr, *offset = nullptr;  // offset is null where the weight is symmetric

  // Those from panel `first` on, the next job's being asked for (or, where that is another thread's, groups further
  // on).
  template <class Level> void read(const W4Weight& w, index first, bool next_job) {
    using F = simd::Floats<Level>;
    const Panels<Level, w4_int8_job_panels> panels(w, first, next_job ? w.groups : w4_prefetch_groups);
    float *scale_to = scale, *offset_to = offset;  // members would be loaded again behind every store
    for (index begin = 0; begin < w.slots; begin += w4_block)
      for_each_segment(begin, w.block_end(begin), w.group, [&](index, index, index g) INLAY_INLINE_LAMBDA {
        if (offset_to) {
          panels.copy_scales(w, g, scale_to, offset_to);
          offset_to += width;
        } else {
          panels.for_each_plain_scale(w, g,
                                      [&](auto v, F of_v) INLAY_INLINE_LAMBDA { of_v.store(scale_to + v * F::size); });
        }
        scale_to += width;
      });
  }
};

}  // namespace inlay::cpu
