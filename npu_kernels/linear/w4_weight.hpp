// A weight of codes of four or eight bits, w = (q - zero) scale, or q scale + offset, one for each group of slots, or
// codebook[q] scale:
//
//   codes, scales, zeros, offsets     panels of words and of groups, each transposed as it is read (operand.hpp)
//   slots   0 .. group-1 | group .. 2 group-1 | ..        a tile may start within a group: its rest comes first
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
  NdTensor codebook = {};                                       // not present: a code is its own value
  index group = 0;                                              // slots
  float middle = 8;

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

// Tiles of w (MakeTile), rounded to f16 once. (q - zero) scale and codebook[q] scale need no more than f16 where scales
// have it: a code less its zero is exact. Offsets, wider scales, and groups that may start where no operand of f16 can,
// are worked on in f32.
class DequantizedTiles {
 public:
  // Of the vector unit's memory for each code, on its way to f16.
  static index making_bytes(const Device& device, const W4Weight& weight) { return wide(device, weight) ? 8 : 4; }
  // Of the vector unit over a code.
  static double making_passes(const Device& device, const W4Weight& weight) { return wide(device, weight) ? 12 : 6; }
  DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, RowTile at_once, std::uint32_t ahead);
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  struct Piece {  // channels and slots of a tile that are made at once
    index row, rows, k, depth;
  };
  static bool wide(const Device& device, const W4Weight& weight);
  index groups_at_once() const;
  void load(const Piece& piece);
  Tensor values(const Piece& piece, const Tensor& w, const Tensor& panel);
  Tensor turned(const Tensor& panel, std::size_t which, index first, index words);
  template <class Visit> void for_groups(const Piece& piece, Visit&& visit) const;

  static constexpr std::size_t codes = 0, scales = 1, shifts = 2, sources = 3;
  Core& core_;
  W4Weight weight_;
  bool wide_;
  RowTile at_once_;
  std::array<RowSource, sources> from_;
  TupleRing<sources> panels_;  // of what a piece is made from, with one pair of flags
  std::array<Tensor, sources> turned_;
  std::optional<CodeValues> look_up_;
  Tensor bytes_, w_, halves_;  // halves_: of w_, where that is f32
};
TileMaker dequantized(const W4Weight& weight);

// Tiles (MakeTile) of codes, of codes less their middle, or of values of the codebook, as the matrix unit's floats,
// which hold them exactly. The order of the words is that of their fractal blocks but for a permutation within each:
//
//   words of a block   w0 of n0 .. n15 | w1 of n0 .. n15 | ..      ->      w0 w1 .. of n0 | w0 w1 .. of n1 | ..
//
//   load_vector  words    vector  permuted, upper bit of each code turned, unpacked    the matrix unit, or store
//                                 permuted, looked up, some blocks at once
class W4Codes {
 public:
  // Up to `depth` slots at once; `ahead` loads are on their way.
  W4Codes(Core& core, Scratch& scratch, const W4Weight& weight, bool less_middle, index depth, std::uint32_t ahead);
  // Of the vector unit's memory.
  static index bytes(const Device& device, const W4Weight& weight, index depth, std::uint32_t ahead);
  // How many slots so many bytes of it hold where the tiles are stored.
  static index stored_slots_in(const Device& device, const W4Weight& weight, index bytes);
  // Channels [row, row + rows) of a panel's first on, slots [k, k + depth) of a block's first on, filled up to blocks.
  void operator()(const Tensor& tile, index row, index rows, index k, index depth);

 private:
  void panel(const Tensor& tile, index row, index k, index depth);
  void make_order();
  void look_up(const Tensor& tile, const Tensor& words);

  Core& core_;
  RowSource codes_;
  bool less_middle_;
  index block_, at_once_, words_of_block_, words_of_row_;  // of a row of the permutation: blocks that fill the lanes
  Ring words_;
  Tensor order_, permuted_;
  std::optional<CodeValues> look_up_;
  Tensor values_;
};

// Slots at once, where `bytes_of_slot` of the vector unit's memory hold one.
index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot);

TileMaker codes_as_they_are(const W4Weight& weight, bool less_middle);

}  // namespace inlay::npu
