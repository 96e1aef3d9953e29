// A weight of codes of four, five, six or eight bits, w = (q - zero) scale, or q scale + offset, one for each group of
// slots, or codebook[q] scale:
//
//   codes, scales, zeros, offsets     panels of words and of groups, each transposed as it is read (operand.hpp)
//   slots   0 .. group-1 | group .. 2 group-1 | ..        a tile may start within a group: its rest comes first
//
// Scales and offsets of i8 are in units of super-blocks of 256 slots: groups have their products, in f32, before they
// meet anything else.
//
// It comes to the matrix unit in one of two ways: as tiles of w in f16, or as tiles of codes, with scales after the
// products (w4_groups.hpp).
#pragma once

#include <inlay/ops/linear_w4a16.hpp>

#include <array>
#include <optional>

#include "npu_kernels/linear/layout.hpp"

namespace inlay::npu {

struct W4Weight {
  RowSource codes = {}, scales = {}, zeros = {}, offsets = {};  // zeros and offsets of count 0: not given
  RowSource super_scales = {}, super_offsets = {};              // nor these
  NdTensor codebook = {};                                       // not present: a code is its own value
  index group = 0;                                              // slots
  index bits = 4;  // of a code; of 5 and 6 `codes` has words of u4 (w4_words.hpp)
  float middle = 8;
  index groups_of_unit = 1;  // that a super-block has

  bool has_upper_bits() const { return bits == 5 || bits == 6; }
  bool in_units() const { return super_scales.count > 0; }
  bool shifts() const { return zeros.count > 0 || offsets.count > 0; }
  const RowSource& zeros_or_offsets() const { return zeros.count > 0 ? zeros : offsets; }
};

W4Weight w4_weight(GlobalMemory& memory, const LinearW4a16<Host>& op);

// Codes of four bits become the values that the codebook has for them, codes u4 -> places i32 -> values i8. The sixteen
// values fit in the unit's lanes: where codes lie side by side, they are looked up as a row of lanes is permuted.
class CodeValues {
 public:
  // Up to `most` codes at once.
  CodeValues(Core& core, Scratch& scratch, const NdTensor& codebook, Shape most);
  // Of the vector unit's memory, for each code.
  static constexpr index bytes_of_code = 4;
  // nd tiles of one shape, u4 to i8.
  void operator()(const Tensor& values, const Tensor& codes);

 private:
  Core& core_;
  Tensor codebook_, places_;
};

// Tiles of w, and what they take of the vector unit's memory for each code, and of the vector unit over it.
TileMaker dequantized(const W4Weight& weight);
index dequantized_bytes(const Device& device, const W4Weight& weight);
double dequantized_passes(const Device& device, const W4Weight& weight);

// Slots at once, where `bytes_of_slot` of the vector unit's memory hold one.
index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot);

// Words of codes with the upper bit of each turned: q is q - 2^(bits - 1) in two's complement, of the type that it
// gives.
DType turn_upper_bits(Core& core, const Tensor& words, DType codes);
inline index words_of(const RowSource& codes, index slots) { return ceil_div(slots, codes.per_word()); }

}  // namespace inlay::npu
