// The packed weight as the kernels read it: group by group, step by step.
//
// Slots are cut into blocks of 128, and each block into segments that have one scale a channel:
//
//   blocks    |        128        |        128        |    rest   |
//   groups    |  g0   |    g1    |    g2    |    g3    |    g4    |
//   segments  |  g0   |    g1  |g1|   g2   ...
//
// A segment's codes are multiplied as they are; its scale and offset follow once:
//
//   total[n] += scale[n,g] * sum_s(x[s] * q[n,s]) + offset[n,g] * sum_s(x[s])
//
// so that a code costs a mask and an fma, and a conversion where it needs one (simd/int4.hpp). The chain of roundings
// is a segment and the number of segments long, and it is the same for every number of rows and threads.
#pragma once

#include <bit>

#include <inlay/cpu.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include "cpu_kernels/linear/cuts.hpp"
#include "cpu_kernels/simd/int4.hpp"
#include "cpu_kernels/support/dtypes.hpp"
#include "cpu_kernels/support/jobs.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

struct W4Weight {
  const std::uint8_t* codes;
  const std::int32_t* perm;  // or null: slots are inputs
  ConstView<3> scales, zeros, offsets;
  const f16 *super_scales, *super_offsets;  // or null: scales and offsets are not in units
  index panels, slots, steps, step_bytes, group, groups, super_blocks;
  int super_shift;                // of a group's number to its super-block's
  bool with_zeros, with_offsets;  // a view is asked once: its answer goes through its extents
  float middle;                   // the zero point where none is given
  simd::NamedBytes named;         // what codes of a codebook name

  INLAY_INLINE explicit W4Weight(const LinearW4a16<Host>& op)
      : codes(op.codes.as<std::uint8_t>()),
        perm(op.perm.present() ? op.perm.as<std::int32_t>() : nullptr),
        scales(op.scales),
        zeros(op.zeros),
        offsets(op.offsets),
        super_scales(op.super_scales.present() ? op.super_scales.as<f16>() : nullptr),
        super_offsets(op.super_offsets.present() ? op.super_offsets.as<f16>() : nullptr),
        panels(op.codes.extents[0]),
        slots(op.slots()),
        steps(op.codes.extents[1]),
        step_bytes(op.codes.extents[2]),
        group(op.group == 0 ? slots : op.group),
        groups(op.scales.extents[1]),
        super_blocks(w4_super_blocks(slots)),
        super_shift(super_scales ? std::countr_zero(static_cast<std::uint64_t>(w4_super_block / group)) : 0),
        with_zeros(op.zeros.present()),
        with_offsets(op.offsets.present()),
        middle(static_cast<float>(1 << (op.bits - 1))) {
    if (!op.codebook.present()) return;
    named = simd::NamedBytes(op.codebook.as<std::int8_t>());
    middle = static_cast<float>(-named.least);
  }

  INLAY_INLINE Work work(index rows) const {
    const double bytes = static_cast<double>(panels * steps * step_bytes);
    return {bytes, 2 * static_cast<double>(rows * panels) * static_cast<double>(w4_panel * slots)};
  }
  // Its zero point is the middle of the codes.
  INLAY_INLINE bool symmetric() const { return !with_zeros && !with_offsets; }
  // Segments begin at the multiples of the group and of the block.
  INLAY_INLINE index segments() const {
    if (group >= slots) return groups_of(slots, w4_block);  // also where it is too large to be multiplied
    const index both = group / (group & -group) * ((group & -group) < w4_block ? w4_block : group & -group);
    return groups_of(slots, group) + groups_of(slots, w4_block) - groups_of(slots, both);
  }
  INLAY_INLINE index block_end(index begin) const { return min(begin + w4_block, slots); }
};

// body(kind) of the weight's codes.
template <simd::Codes Kind> using CodesAre = std::integral_constant<simd::Codes, Kind>;
template <class Body> auto with_codes(const LinearW4a16<Host>& op, Body&& body) {
  if (op.codebook.present()) return body(CodesAre<simd::Codes::named>{});
  switch (op.bits) {
    case 4: return body(CodesAre<simd::Codes::four>{});
    case 5: return body(CodesAre<simd::Codes::five>{});
    case 6: return body(CodesAre<simd::Codes::six>{});
    default: return body(CodesAre<simd::Codes::eight>{});
  }
}
// The same of int8_activations.
template <class Level, class Body> auto with_int8_codes(const LinearW4a16<Host>& op, Body&& body) {
  if constexpr (simd::has_narrow_codes<Level>)
    if (op.codebook.present() && simd::NamedBytes(op.codebook.as<std::int8_t>()).narrow)
      return body(CodesAre<simd::Codes::narrow>{});
  return with_codes(op, body);
}

// body(worker, job) for each job, on the workers 0 .. width - 1.
template <class Body>
INLAY_INLINE void w4_each_job(const Parallel& parallel, index count, const Work& work, Body&& body) {
  Jobs jobs(count);
  parallel(parallel.width, work,
           [&](index worker) { jobs.each([&](index job) INLAY_INLINE_LAMBDA { body(worker, job); }); });
}

// body(begin, end, g) for each segment of the block begin .. end.
template <class Body> INLAY_INLINE void for_each_segment(index begin, index end, index group, Body&& body) {
  index g = begin / group;
  while (begin < end) {
    const index group_end = (g + 1) * group, stop = min(group_end, end);
    body(begin, stop, g++);
    begin = stop;
  }
}

// body(begin, end) of the jobs of a call with one row. Several a task: what the end of one has prefetched is the
// beginning of the next. Several tasks a thread: a slow core does fewer.
template <class Body>
INLAY_INLINE void w4_each_run(const Parallel& parallel, index jobs, const Work& work, Body&& body) {
  const index tasks = parallel.pieces(jobs, work);
  parallel(tasks, work, [&](index task) { body(jobs * task / tasks, jobs * (task + 1) / tasks); });
}

// y[t + r, channel ..] = total[r][..] * factor[r] + bias for `rows` rows, `stride` totals each, and for the channels
// that exist. factor may be null: 1.
template <class Level>
void w4_store(const LinearW4a16<Host>& op, index t, index rows, index channel, index count, const float* total,
              index stride, const float* factor) {
  using F = simd::Floats<Level>;
  const index n = op.y.extents[1];
  const index end = min(channel + count, n);
  with_float(op.y.dtype, [&]<class T>(Type<T>) {
    with_float(op.bias.dtype, [&]<class B>(Type<B>) {
      for (index r = 0; r < rows; ++r) {
        T* y = op.y.as<T>() + (t + r) * op.y.strides[0];
        const F times(factor ? factor[r] : 1);
        for (index c = channel; c < end; c += F::size) {
          const index left = min(end - c, F::size);
          F value = F::load(total + r * stride + (c - channel)) * times;
          if (op.bias.present()) value = value + F::load(op.bias.as<B>() + c, left);
          value.store(y + c, left);
        }
      }
    });
  });
}

}  // namespace inlay::cpu
