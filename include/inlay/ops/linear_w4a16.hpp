// Linear layer whose weight is codes of 4 bits (or 5, 6, 8) with a scale per group of inputs.
//
//   y[t,n] = sum_s x[t, perm[s]] * w[n,s] + bias[n]                s over slots, groups g = s / group
//
//   w[n,s] = (q[n,s] - 2^(bits-1)) * scale[n,g]                    symmetric: none of the next three
//   w[n,s] = (q[n,s] - zero[n,g]) * scale[n,g]                     zeros given: GPTQ, AWQ, ONNX
//   w[n,s] =  q[n,s] * scale[n,g] + offset[n,g]                    offsets given: GGUF's Q4_1, Q4_K ..
//   w[n,s] = codebook[q[n,s]] * scale[n,g]                         codebook given: MXFP4, GGUF's IQ4_NL, IQ4_XS
//
// Scales (and offsets) may be whole numbers of 8 bits, in units of a super-block of 256 slots, b = s / 256, as GGUF's K
// formats have them. f32 holds the products exactly, and all above is said of them:
//
//   scale[n,g] = scales[n,g] * super_scales[n,b]    offset[n,g] = offsets[n,g] * super_offsets[n,b]
//
// Slots are the k inputs in order, unless perm names another order (GPTQ's act-order: the inputs of
// one group are brought side by side); perm[s] = -1 is a slot without input, which counts as one of 0: a scale that
// is not finite shows there, too.
//
// Sixteen output channels form a panel. A step is the codes of its next slots, four of 8 bits or eight of fewer: one
// 32-bit word (little endian) for each channel, the first slot in its lowest bits. Of codes of 5 and 6 bits it holds
// the lower four, and the upper ones follow behind the words of the step, one byte or two for each channel. Codes are
// unsigned. Scales, zeros and offsets lie beside each other by channel too:
//
//   codes [panels, steps, bytes]     bits = 4: word of a channel      | s7 s6 s5 s4 s3 s2 s1 s0 |
//     step 0  | n0 | n1 | .. | n15 |                                   31                       0
//     step 1  | n0 | n1 | .. | n15 |  bits = 8: word of a channel      |  s3   s2   s1   s0  |
//
//   bits = 5, 6: 80, 96 bytes        bits = 5: fifth bits, a byte     | s7 s6 s5 s4 s3 s2 s1 s0 |
//     step 0  | n0 .. n15 | n0 .. n15 |                                 7                       0
//     step 1  | n0 .. n15 | n0 .. n15 |  bits = 6: upper pairs, u16   | s7 s3 s6 s2 s5 s1 s4 s0 |
//               words       upper bits                                 15                       0
//
//   scales [panels, groups, 16]        super_scales [panels, super-blocks, 16]
//     group 0 | n0 n1 .. n15 |           block 0 | n0 n1 .. n15 |
//
// Of a mixture of experts (core/experts.hpp) each expert's codes, scales, zeros and offsets have that form by
// themselves, and lie behind each other; all have one perm and one codebook.
//
// Channels beyond n and slots beyond the last one may hold anything. linear_w4a16_import.hpp writes
// this form from GPTQ, AWQ, GGUF and ONNX tensors; it does not depend on the machine.
//
//   compute  exact_float       f32: the scale and offset (-zero * scale where zeros are given) of a
//                              group are applied to its sums of x * q and of x; with a codebook q is
//                              its value less the least of them, and that is the zero point, negated
//            int8_activations  x is rounded to 8 bits, with one scale for each group (and at most
//                              128 slots): integer dot products, error in docs/ops/linear_w4a16.md
//                              (a row of x with NaN or infinity gives a row of NaN)
//
// A row of y depends on its row of x alone: not on the other rows, nor on the number of threads.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/experts.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/isa.hpp>

namespace inlay {

enum class W4Compute : unsigned char { exact_float, int8_activations };

inline constexpr index w4_panel = 16;          // output channels that lie side by side
inline constexpr index w4_group_multiple = 8;  // slots in a step of 4-bit codes: groups end with steps
inline constexpr index w4_codebook = 16;       // values that codes of 4 bits name
inline constexpr index w4_super_block = 256;   // slots whose groups' scales have one unit

inline namespace INLAY_UNIT_ISA {

constexpr index w4_panels(index n) { return groups_of(n, w4_panel); }
constexpr bool w4_has_bits(index bits) { return bits == 4 || bits == 5 || bits == 6 || bits == 8; }
// Slots of a step, its bytes, and the steps that the codes of `slots` take.
constexpr index w4_step_slots(index bits) { return bits == 8 ? 4 : 8; }
constexpr index w4_step_bytes(index bits) { return w4_panel * (bits == 8 ? 4 : bits); }
constexpr index w4_steps(index slots, index bits) { return groups_of(slots, w4_step_slots(bits)); }
// Where the upper bits of slot j of a step lie in its channel's byte of them, or u16.
constexpr index w4_upper_place(index bits, index j) { return bits == 6 ? 4 * (j % 4) + 2 * (j / 4) : j; }
// group 0: the whole row is one group.
constexpr index w4_groups(index slots, index group) {
  return slots == 0 ? 0 : group == 0 ? 1 : groups_of(slots, group);
}
constexpr index w4_super_blocks(index slots) { return groups_of(slots, w4_super_block); }

}  // namespace INLAY_UNIT_ISA

template <class Space = Host> struct LinearW4a16 {
  ConstView<2, Space> x;                   // [tokens, k]              f32 f16 bf16; row stride free
  ConstView<3, Space> codes;               // [panels, steps, bytes]   u8; contiguous
  ConstView<3, Space> scales;              // [panels, groups, 16]     f32 f16 bf16, or i8 of super_scales; contiguous
  ConstView<3, Space> zeros = {};          // [panels, groups, 16]     u8 f32 f16 bf16; optional, contiguous
  ConstView<3, Space> offsets = {};        // [panels, groups, 16]     as scales; in place of zeros, contiguous
  ConstView<3, Space> super_scales = {};   // [panels, super-blocks, 16]  f16; with scales of i8, contiguous
  ConstView<3, Space> super_offsets = {};  // [panels, super-blocks, 16]  f16; with offsets of i8, contiguous
  ConstView<1, Space> codebook = {};     // [16]                     i8; optional: bits 4, in place of zeros and offsets
  ConstView<1, Space> perm = {};         // [slots]                  i32 in -1..k-1; optional: slots = k, in order
  ConstView<1, Space> bias = {};         // [n]                      f32 f16 bf16; optional
  ConstView<1, Space> expert_ends = {};  // [experts]                i32; optional: panels and n above times them
  View<2, Space> y;                      // [tokens, n]              f32 or x's type; row stride free
  index group = 0;                       // slots that share a scale: a multiple of 8, or 0 for the whole row
  index bits = 4;                        // of a code: 4, 5, 6 or 8
  W4Compute compute = W4Compute::exact_float;

  static constexpr std::string_view name = "linear_w4a16";
  static constexpr auto fields = FieldList{in("x", &LinearW4a16::x),
                                           in("codes", &LinearW4a16::codes),
                                           in("scales", &LinearW4a16::scales),
                                           optional_in("zeros", &LinearW4a16::zeros),
                                           optional_in("offsets", &LinearW4a16::offsets),
                                           optional_in("super_scales", &LinearW4a16::super_scales),
                                           optional_in("super_offsets", &LinearW4a16::super_offsets),
                                           optional_in("codebook", &LinearW4a16::codebook),
                                           optional_in("perm", &LinearW4a16::perm),
                                           optional_in("bias", &LinearW4a16::bias),
                                           optional_in("expert_ends", &LinearW4a16::expert_ends),
                                           out("y", &LinearW4a16::y),
                                           scalar("group", &LinearW4a16::group),
                                           scalar("bits", &LinearW4a16::bits),
                                           scalar("compute", &LinearW4a16::compute)};
  static constexpr Isa dot_levels[] = {Isa::avx512_vnni, Isa::neon_dotprod, Isa::neon_i8mm};

  INLAY_INLINE constexpr index slots() const { return perm.present() ? perm.extents[0] : x.extents[1]; }
  INLAY_INLINE constexpr index experts() const { return expert_ends.present() ? expert_ends.extents[0] : 1; }
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const LinearW4a16<Space>& op) {
  const index k = op.x.extents[1], n = op.y.extents[1], slots = op.slots(), experts = op.experts();
  if (!w4_has_bits(op.bits))
    return Check(op).that(false, op.bits, [&] { return "is " + format_value(op.bits) + "; it must be 4, 5, 6 or 8"; });
  if (op.group < 0 || op.group % w4_group_multiple != 0)
    return Check(op).that(false, op.group, [&] {
      return "is " + format_value(op.group) + "; it must be a multiple of 8, or 0 for the whole row";
    });
  const index panels = saturating_multiply(experts, w4_panels(n));
  const std::array<index, 3> per_group{panels, w4_groups(slots, op.group), w4_panel};
  const std::array<index, 3> per_super_block{panels, w4_super_blocks(slots), w4_panel};
  const bool in_units = op.super_scales.present();
  const DTypes per_scale = in_units ? DTypes{DType::i8} : floats;
  Status status = check_expert_ends(
      op,
      Check(op)
          .dtype(op.expert_ends, DType::i32)
          .that(op.experts() > 0, op.expert_ends, no_expert)
          .dtype(op.x, floats)
          .dtype(op.y, DTypes{DType::f32, op.x.dtype})
          .extent(op.y, 0, op.x.extents[0])
          .dtype(op.codes, DType::u8)
          .shape(op.codes, {panels, w4_steps(slots, op.bits), w4_step_bytes(op.bits)})
          .contiguous(op.codes)
          .dtype(op.scales, per_scale)
          .shape(op.scales, per_group)
          .contiguous(op.scales)
          .that(!(op.zeros.present() && op.offsets.present()), op.offsets,
                "are given; they must be left out where zeros are given")
          .dtype(op.zeros, DTypes{DType::u8, DType::f32, DType::f16, DType::bf16})
          .shape(op.zeros, per_group)
          .contiguous(op.zeros)
          .dtype(op.offsets, per_scale)
          .shape(op.offsets, per_group)
          .contiguous(op.offsets)
          .that(!in_units || (op.group > 0 && w4_super_block % op.group == 0), op.group,
                [&] { return "is " + format_value(op.group) + "; it must divide 256 where super_scales are given"; })
          .dtype(op.super_scales, DType::f16)
          .shape(op.super_scales, per_super_block)
          .contiguous(op.super_scales)
          .that(op.super_offsets.present() == (in_units && op.offsets.present()), op.super_offsets,
                [&] {
                  return op.super_offsets.present()
                             ? "are given; they must be left out where super_scales or offsets are"
                             : "are missing; they must be given where super_scales and offsets are";
                })
          .dtype(op.super_offsets, DType::f16)
          .shape(op.super_offsets, per_super_block)
          .contiguous(op.super_offsets)
          .that(!op.codebook.present() || op.bits == 4, op.codebook,
                "is given; it must be left out where bits is not 4")
          .that(!op.codebook.present() || !(op.zeros.present() || op.offsets.present()), op.codebook,
                "is given; it must be left out where zeros or offsets are")
          .dtype(op.codebook, DType::i8)
          .extent(op.codebook, 0, w4_codebook)
          .dtype(op.perm, DType::i32)
          .dtype(op.bias, floats)
          .extent(op.bias, 0, saturating_multiply(experts, n))
          .within(op.compute, W4Compute::exact_float, W4Compute::int8_activations));
  if constexpr (std::is_same_v<Space, Host>) {
    if (status.ok() && op.perm.present()) {
      const auto* perm = op.perm.template as<std::int32_t>();
      for (index s = 0; s < slots; ++s)
        if (perm[s] < -1 || perm[s] >= k)
          return invalid("perm[" + number(s) + "] is " + number(perm[s]) + "; it must be in -1.." + number(k - 1));
    }
  }
  return status;
}

// The operator with so many panels of its weight, from panel `first` on. Its other views stay as they are.
template <class Space> LinearW4a16<Space> with_panels(LinearW4a16<Space> op, index first, index count) {
  for (auto view : {&op.codes, &op.scales, &op.zeros, &op.offsets, &op.super_scales, &op.super_offsets})
    if (view->present()) *view = view->slice(0, first, count);
  return op;
}

template <class Space> LinearW4a16<Space> expert_part(LinearW4a16<Space> op, index expert, ExpertRows rows) {
  const index experts = op.experts(), panels = op.codes.extents[0] / experts;
  op = with_panels(op, expert * panels, panels);
  op.x = op.x.slice(0, rows.first, rows.count);
  op.y = op.y.slice(0, rows.first, rows.count);
  op.bias = of_expert(op.bias, expert, experts);
  op.expert_ends = {};
  return op;
}

// So many panels of channels from panel `first` on, of a linear without experts.
template <class Space> LinearW4a16<Space> channel_part(LinearW4a16<Space> op, index first, index panels) {
  const index begin = first * w4_panel, rest = op.y.extents[1] - begin,
              count = panels * w4_panel < rest ? panels * w4_panel : rest;
  op = with_panels(op, first, panels);
  op.y = op.y.slice(1, begin, count);
  if (op.bias.present()) op.bias = op.bias.slice(0, begin, count);
  return op;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
