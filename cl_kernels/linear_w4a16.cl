// y[t,n] = sum_s x[t, perm[s]] * w[n,s] + bias[n],    w[n,s] = q[n,s] * scale[n,g] + offset[n,g]
//                                                     offset = -zero * scale where zeros are given
//                                                     w[n,s] = codebook[q[n,s]] * scale[n,g] where that is given
//                                                     scale, offset: whole numbers times super_scale, super_offset
//                                                     of 256 slots where those are given
//
// Slots are cut into blocks of 128 and those at the groups' bounds into segments, which have one scale a channel:
//
//   y[t,n] = sum over segments  scale * sum(x * q) + offset * sum(x)
//
// int8_activations: x of a segment is in steps of max|x| / 127. `prepare` brings these whole numbers. It also takes the
// inputs in the order of a permutation. In the per-item shape every call has it; in the per-group shape tiles and those
// that need it.
//
//   values   [rows, slots up to 16]           x in the order of slots, f32, or its steps; as tiles take them
//   step     [rows, blocks + groups]          of a segment, at begin / 128 + begin / group; sums: of its values
//                                           per-item shape, exact: a row's first brings its results back from its power
//   refused  [rows]                           the row meets an index out of range and is not written
//
//   PREPARES   the program has `prepare`; else `product` with
//   BITS       of a code          S          type of scales       ROWS   rows that share a code in registers, or a tile
//   EXPERTS    see linear/experts.clh
//   STEPS      int8_activations   ALIGNED    see support/types.clh
//   SUBNORMALS codes are subnormal floats, in the per-item shape (runtime/subnormals.hpp)
//   CODEBOOK   codes of 4 bits name values of a codebook: linear/w4_codebook_*.clh
//   UNITS      scales and offsets are in units of super-blocks: S is i8
//
// gpu report, one row, exact: -D S=f16 -D BITS=4 -D ROWS=1
// gpu report, one row, int8 activations: -D S=f16 -D BITS=4 -D ROWS=1 -D STEPS=1
// gpu report, one row, int8 activations, dp4a: -D S=f16 -D BITS=4 -D ROWS=1 -D STEPS=1 -D DOT_PTX=1
// gpu report, one row, exact, codebook: -D S=f16 -D BITS=4 -D ROWS=1 -D CODEBOOK=1
// gpu report, one row, dp4a, codebook: -D S=f16 -D BITS=4 -D ROWS=1 -D STEPS=1 -D DOT_PTX=1 -D CODEBOOK=1
// gpu report, one row, exact, 6 bits: -D S=f16 -D BITS=6 -D ROWS=1
// gpu report, one row, dp4a, 6 bits: -D S=f16 -D BITS=6 -D ROWS=1 -D STEPS=1 -D DOT_PTX=1
// gpu report, one row, dp4a, units: -D S=i8 -D UNITS=1 -D BITS=4 -D ROWS=1 -D STEPS=1 -D DOT_PTX=1
// gpu report, tiled, exact: -D S=f16 -D BITS=4 -D ROWS=64 -D LANES=256
// gpu report, tiled, int8 activations: -D S=f16 -D BITS=4 -D ROWS=64 -D LANES=256 -D STEPS=1
// gpu report, tiled, int8 activations, dp4a: -D S=f16 -D BITS=4 -D ROWS=64 -D LANES=256 -D STEPS=1 -D DOT_PTX=1
// gpu report, tiled, exact, codebook: -D S=f16 -D BITS=4 -D ROWS=64 -D LANES=256 -D CODEBOOK=1
// gpu report, tiled, dp4a, codebook: -D S=f16 -D BITS=4 -D ROWS=64 -D LANES=256 -D STEPS=1 -D DOT_PTX=1 -D CODEBOOK=1
// gpu report, tiled, dp4a, 6 bits: -D S=f16 -D BITS=6 -D ROWS=64 -D LANES=256 -D STEPS=1 -D DOT_PTX=1
// gpu report, preparing: -D PREPARES=1
// gpu report says: codes do; four lanes share x, one by one, in each of its types, of which one is met
// gpu report says of warps, exact, 6 bits: a lane waits for four lines, 96 bytes of 6 bits, so more is on its way
#include "cl_kernels/linear/experts.clh"
#include "cl_kernels/linear/panels.clh"
#include "cl_kernels/linear/words.clh"
#include "cl_kernels/linear_w4a16.clh"
#include "cl_kernels/support/fault.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"

#if !defined(PREPARES) && !defined(S)
#define S f32
#define BITS 4
#define ROWS 1
#endif

#define BLOCK 128
#define SUPER_BLOCK 256
#define PANEL 16
// Codes of a channel in a line, whose nibbles or bytes are a word, and the bytes of a line.
#define PER_WORD (BITS == 8 ? 4 : 8)
#define LINE (PANEL * (BITS == 8 ? 4 : BITS))
// Codes become bytes before they are numbers.
#if defined(CODEBOOK) || BITS == 5 || BITS == 6
#define SPREAD
#endif
// Of a block: groups are 8 slots and more, and the first may have begun before.
#define MOST_SEGMENTS (BLOCK / 8 + 1)

// Codes of expert e, and what its channels have. A codebook is everybody's.
#define TO_EXPERT(e)                                                                              \
  const long panels_before = (e) * ((args.n + PANEL - 1) / PANEL);                                \
  my.codes_begin += panels_before * ((args.slots + PER_WORD - 1) / PER_WORD) * LINE;              \
  my.scales_begin += panels_before * args.groups * PANEL;                                         \
  my.other_begin += panels_before * args.groups * PANEL;                                          \
  my.super_scales_begin += panels_before * super_blocks(args.slots) * PANEL;                      \
  my.super_offsets_begin += panels_before * super_blocks(args.slots) * PANEL;                     \
  my.bias_begin += (e) * args.n;

// Where the segment that begins at s ends.
static inline long segment_end(long s, long group, long slots) {
  return min(min((s / BLOCK + 1) * BLOCK, (s / group + 1) * group), slots);
}
static inline long segment_place(long s, long group) { return s / BLOCK + s / group; }
static inline long super_blocks(long slots) { return (slots + SUPER_BLOCK - 1) / SUPER_BLOCK; }

#ifdef PER_ITEM
#include "cl_kernels/linear/dot_per_item.clh"
#else
#include "cl_kernels/linear/dot_per_group.clh"
#endif
#ifdef PREPARES
#include "cl_kernels/linear/w4_prepare.clh"
#else

// Scales, and zeros or offsets, whose type tells them apart: neither is FORM_NONE, where the number that a code stands
// for is itself + MIDDLE.
#define FORM_NONE -1
#define FORM_ZEROS 0
#define FORM_OFFSETS 1
#define DEFINE_OFFSET(N)                                                                               \
  static inline VECTOR(N) offset##N(VECTOR(N) scale, float middle, int form, int type,                 \
                                    global const void* other, long i) {                                \
    if (form == FORM_NONE) return scale * middle;                                                      \
    if (type == ANY_U8) return scale * -LOAD(u8, N)((global const uchar*)other, i);                    \
    const VECTOR(N) v = load##N##_any(type, other, i);                                                 \
    return form == FORM_ZEROS ? scale * -v : v;                                                        \
  }
// Of N channels: i is where they lie among those of groups, u among those of super-blocks.
#ifdef UNITS
#define SCALES(N, i, u)                                                                                \
  (LOAD(S, N)(scales, my.scales_begin + (i)) * LOAD(f16, N)(super_scales, my.super_scales_begin + (u)))
#define HAS_UNIT_OFFSETS (FORM == FORM_OFFSETS)
#define UNIT_OFFSETS(N, i, u)                                            \
  (LOAD(i8, N)((global const char*)other, my.other_begin + (i)) *        \
   LOAD(f16, N)(super_offsets, my.super_offsets_begin + (u)))
#else
#define SCALES(N, i, u) LOAD(S, N)(scales, my.scales_begin + (i))
#define HAS_UNIT_OFFSETS false
#define UNIT_OFFSETS(N, i, u) 0.0f
#endif
#define OFFSETS(N, scale, i, u)                   \
  (HAS_UNIT_OFFSETS ? UNIT_OFFSETS(N, i, u)       \
                    : offset##N(scale, MIDDLE, FORM, my.other_type, other, my.other_begin + (i)))
#ifdef CODEBOOK
#define FORM FORM_NONE  // known to compilers
#else
#define FORM my.form
#define MIDDLE -(float)(1 << (BITS - 1))
#define TAKE_CODEBOOK
#endif

#include "cl_kernels/linear/w4_line.clh"
#ifdef PER_ITEM
#ifdef CODEBOOK
#include "cl_kernels/linear/w4_codebook_per_item.clh"
#endif
#include "cl_kernels/linear/w4_per_item_scales.clh"
#ifdef STEPS
#include "cl_kernels/linear/w4_per_item_steps.clh"
#else
#include "cl_kernels/linear/w4_per_item.clh"
#endif
#else
#ifdef CODEBOOK
#include "cl_kernels/linear/w4_codebook_per_group.clh"
#else
#include "cl_kernels/linear/w4_bytes.clh"
#endif
#if ROWS <= 4
#include "cl_kernels/linear/w4_few.clh"
#else
#include "cl_kernels/linear/w4_tile.clh"
#endif
#endif
#endif
