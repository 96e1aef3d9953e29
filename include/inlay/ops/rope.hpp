// Rotary position embedding.                                       Su et al., 2021 (RoFormer)
//
//   RopeTable   angle[t,i] = positions[axis[i],t] * inv_freq[i]
//               cos[t,i], sin[t,i] = magnitude * (cos, sin)(angle[t,i])
//   Rope        (a, b)  ->  (a cos[t,i] - b sin[t,i],  a sin[t,i] + b cos[t,i])     for every head
//
// A model fills one table a forward pass; every layer rotates its q and its k with it, in place or
// not. Frequencies, scaling rules (NTK, YaRN, Llama 3.1, ...) and M-RoPE's axes are host work done
// once a model: rope_frequencies() and rope_axes() in <inlay/weights/rope_frequencies.hpp>.
//
// Where the i-th pair (a, b) of `pairs` lies in a head of x:
//
//   half (Hugging Face, NeoX)   | first: a0 a1 .. ap | b0 b1 .. bp | rest as it is |
//   interleaved (Llama, GPT-J)  | first: a0 b0 a1 b1 ..      ap bp | rest as it is |
//
// The angle and its reduction run in double: a position of 10^6 loses no accuracy.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct RopeTable {
  ConstView<2, Space> positions;  // [axes, tokens]  i32 i64, any sign; axes 1, or M-RoPE's 3 or 4
  // [1 or 2, pairs] f32: a frequency is the sum of its column. One f32 alone is 2^-25 off, which at
  // position 10^6 turns by 0.03 rad; row 1 holds the rest.
  ConstView<2, Space> inv_freq;
  ConstView<1, Space> axis = {};  // [pairs]  i32, optional: which row of positions turns the pair; else row 0
  View<2, Space> cos;             // [tokens, pairs]  f32
  View<2, Space> sin;             // [tokens, pairs]  f32
  float magnitude = 1;            // YaRN's and LongRoPE's attention factor

  static constexpr std::string_view name = "rope_table";
  static constexpr auto fields = FieldList{in("positions", &RopeTable::positions),
                                           in("inv_freq", &RopeTable::inv_freq),
                                           optional_in("axis", &RopeTable::axis),
                                           out("cos", &RopeTable::cos),
                                           out("sin", &RopeTable::sin),
                                           scalar("magnitude", &RopeTable::magnitude)};
};

template <class Space = Host> struct Rope {
  ConstView<3, Space> x;               // [tokens, heads, head_dim]  f32 f16 bf16; a part of a fused row
  ConstView<2, Space> cos;             // [tokens or cached, pairs]  f32 or x's type
  ConstView<2, Space> sin;             // [tokens or cached, pairs]  cos's type
  ConstView<1, Space> positions = {};  // [tokens]  i32 i64, optional: token t turns by row positions[t], else row t
  View<3, Space> y;                    // [tokens, heads, head_dim]  x's type; may be x itself
  index first = 0;                     // where the rotated part of a head begins; 2 * pairs long
  bool interleaved = false;

  static constexpr std::string_view name = "rope";
  static constexpr auto fields = FieldList{in("x", &Rope::x),
                                           in("cos", &Rope::cos),
                                           in("sin", &Rope::sin),
                                           optional_in("positions", &Rope::positions),
                                           out("y", &Rope::y),
                                           scalar("first", &Rope::first),
                                           scalar("interleaved", &Rope::interleaved)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const RopeTable<Space>& op) {
  const index tokens = op.positions.extents[1], pairs = op.inv_freq.extents[1];
  Status status = Check(op)
                      .dtype(op.positions, ids)
                      .that(op.positions.extents[0] >= 1, op.positions, "has no row; it must have one for each axis")
                      .dtype(op.inv_freq, DType::f32)
                      .that(op.inv_freq.extents[0] == 1 || op.inv_freq.extents[0] == 2, op.inv_freq,
                            "must have 1 row, or 2 whose sum counts")
                      .dtype(op.axis, DType::i32)
                      .extent(op.axis, 0, pairs)
                      .dtype(op.cos, DType::f32)
                      .shape(op.cos, {tokens, pairs})
                      .dtype(op.sin, DType::f32)
                      .shape(op.sin, {tokens, pairs})
                      .finite(op.magnitude);
  return status.ok() ? check_entries("axis", op.axis, op.positions.extents[0]) : std::move(status);
}

template <class Space> Status check(const Rope<Space>& op) {
  const index tokens = op.x.extents[0], pairs = op.cos.extents[1], half = op.x.extents[2] / 2;
  const bool fits = pairs >= 0 && pairs <= half && op.first <= op.x.extents[2] - 2 * pairs;
  Status status = Check(op)
                      .dtype(op.x, floats)
                      .dtype(op.cos, DTypes{DType::f32, op.x.dtype})
                      .same_dtype(op.sin, op.cos)
                      .same_shape(op.sin, op.cos)
                      .dtype(op.positions, ids)
                      .extent(op.positions, 0, tokens)
                      .that(op.positions.present() || op.cos.extents[0] == tokens, op.cos,
                            "must have a row for each token of x where no positions are given")
                      .same_dtype(op.y, op.x)
                      .same_shape(op.y, op.x)
                      .at_least(op.first, 0)
                      .that(fits, op.first,
                            [&] {
                              return "is " + number(op.first) + ": with 2 * " + number(pairs) +
                                     " of cos it reaches past the head of x; they must fit in " +
                                     number(op.x.extents[2]);
                            })
                      .may_alias(op.y, op.x);
  return status.ok() ? check_entries("positions", op.positions, op.cos.extents[0]) : std::move(status);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
