// Linear layer, the matrix product of every projection.
//
//   y[t,n] = sum_k x[t,k] * w[n,k] + bias[n]
//
// The weight is given in one of two forms, which give the same numbers bit for bit:
//
//   weight        packed once by pack_linear (linear_pack.hpp) into panels of 16 output channels:
//                 the fast form. The layout does not depend on the machine and may be stored.
//
//     f32, f16    [ceil(n/16), k, 16]           a panel holds, for each k in turn,
//                   k = 0 | n0 n1 n2 .. n15 |   the weights of its 16 channels
//                   k = 1 | n0 n1 n2 .. n15 |
//     bf16        [ceil(n/16), ceil(k/2), 32]   two k lie side by side, as dot_bf16 reads them
//               k = 0,1 | n0k0 n0k1 n1k0 n1k1 .. n15k0 n15k1 |
//               k = 2,3 | n0k2 n0k3 n1k2 n1k3 .. n15k2 n15k3 |
//                 Channels beyond n and the k that makes an odd count even are zero.
//
//   weight_rows   as checkpoints store it, [n, k]: nothing to pack, no second copy (an embedding
//                 table that is the output projection too), at more work per byte.
//
//   compute  exact_float    nothing is rounded before the product
//            bf16_products  x and the weight are rounded to bf16 where they are not, to nearest even: relative error
//                           2^-8 each at most; products are exact. NaN and infinities stay, and finite numbers from
//                           0x1.ffp127 on become infinite.
//
// Of a mixture of experts (core/experts.hpp) each expert's weight is packed by itself, and they lie behind each other.
//
// Accumulation is f32. A row of y depends on its row of x alone: not on the other rows, nor on the
// number of threads. docs/ops/linear.md states the order of the sum and what bf16 dot products round.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/experts.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/isa.hpp>

namespace inlay {

enum class LinearCompute : unsigned char { exact_float, bf16_products };

inline constexpr index linear_panel = 16;  // output channels that lie side by side

inline namespace INLAY_UNIT_ISA {

// Consecutive k of one channel that lie side by side.
constexpr index linear_interleave(DType weight) { return weight == DType::bf16 ? 2 : 1; }

// The shape of the packed form of a weight [n, k].
constexpr std::array<index, 3> linear_packed_extents(index n, index k, DType weight) {
  const index pair = linear_interleave(weight);
  return {groups_of(n, linear_panel), groups_of(k, pair), linear_panel * pair};
}

// Where w[n,k] lies in it.
constexpr std::array<index, 3> linear_packed_at(index n, index k, DType weight) {
  const index pair = linear_interleave(weight);
  return {n / linear_panel, k / pair, n % linear_panel * pair + k % pair};
}

}  // namespace INLAY_UNIT_ISA

template <class Space = Host> struct Linear {
  ConstView<2, Space> x;                 // [tokens, k]  f32 f16 bf16; row stride free
  ConstView<3, Space> weight = {};       // packed, linear_packed_extents(n, k, dtype)  f32 f16 bf16; contiguous
  ConstView<2, Space> weight_rows = {};  // [n, k]       f32 f16 bf16; row stride free; in place of weight
  ConstView<1, Space> bias = {};         // [n]          f32 f16 bf16; optional
  ConstView<1, Space> expert_ends = {};  // [experts]    i32; optional: the three above are [experts * ..]
  View<2, Space> y;                      // [tokens, n]  f32 or x's type; row stride free
  LinearCompute compute = LinearCompute::exact_float;

  static constexpr std::string_view name = "linear";
  static constexpr auto fields = FieldList{in("x", &Linear::x),
                                           optional_in("weight", &Linear::weight),
                                           optional_in("weight_rows", &Linear::weight_rows),
                                           optional_in("bias", &Linear::bias),
                                           optional_in("expert_ends", &Linear::expert_ends),
                                           out("y", &Linear::y),
                                           scalar("compute", &Linear::compute)};
  static constexpr Isa dot_levels[] = {Isa::avx512_bf16};

  INLAY_INLINE constexpr index experts() const { return expert_ends.present() ? expert_ends.extents[0] : 1; }
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Linear<Space>& op) {
  const index k = op.x.extents[1], n = op.y.extents[1], experts = op.experts();
  std::array<index, 3> packed = linear_packed_extents(n, k, op.weight.dtype);
  packed[0] = saturating_multiply(experts, packed[0]);
  const index channels = saturating_multiply(experts, n);
  return check_expert_ends(op,
                           Check(op)
                               .dtype(op.expert_ends, DType::i32)
                               .that(op.experts() > 0, op.expert_ends, no_expert)
                               .dtype(op.x, floats)
                               .dtype(op.y, DTypes{DType::f32, op.x.dtype})
                               .extent(op.y, 0, op.x.extents[0])
                               .that(op.weight.present() != op.weight_rows.present(), op.weight,
                                     "must be given if weight_rows is left out, and left out if weight_rows is given")
                               .dtype(op.weight, floats)
                               .shape(op.weight, packed)
                               .contiguous(op.weight)
                               .dtype(op.weight_rows, floats)
                               .shape(op.weight_rows, {channels, k})
                               .dtype(op.bias, floats)
                               .extent(op.bias, 0, channels)
                               .within(op.compute, LinearCompute::exact_float, LinearCompute::bf16_products));
}

template <class Space> Linear<Space> expert_part(Linear<Space> op, index expert, ExpertRows rows) {
  const index experts = op.experts();
  op.x = op.x.slice(0, rows.first, rows.count);
  op.y = op.y.slice(0, rows.first, rows.count);
  op.weight = of_expert(op.weight, expert, experts);
  op.weight_rows = of_expert(op.weight_rows, expert, experts);
  op.bias = of_expert(op.bias, expert, experts);
  op.expert_ends = {};
  return op;
}

// So many panels of channels from panel `first` on, of a linear without experts.
template <class Space> Linear<Space> channel_part(Linear<Space> op, index first, index panels) {
  const index begin = first * linear_panel, rest = op.y.extents[1] - begin,
              count = panels * linear_panel < rest ? panels * linear_panel : rest;
  op.y = op.y.slice(1, begin, count);
  if (op.weight.present()) op.weight = op.weight.slice(0, first, panels);
  if (op.weight_rows.present()) op.weight_rows = op.weight_rows.slice(0, begin, count);
  if (op.bias.present()) op.bias = op.bias.slice(0, begin, count);
  return op;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
