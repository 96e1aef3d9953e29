// Words of codes in the vector unit's memory, as the makers of tiles work on them.
//
// Words of four and eight bits are of their own type as they lie. A step of five or six bits is nibbles and upper bits
// (ops/linear_w4a16.hpp), which no unit unpacks. Two shuffles take it apart: nibbles into words, and for each code the
// byte that has its upper bits, which are cut out of it and moved to where a byte has them:
//
//   steps                       words                  bytes of a channel, 6 bits: slot 0, 1, ..
//   | nibbles | upper bits |    | s7 s6 .. s1 s0 |     | ......00 | ..11.... | ......22 | ..33.... | ....44.. | ..
//                               unpacked               & mask, * 16 / where the lowest bit is
//
//   q = the nibble | those
#pragma once

#include "npu_kernels/linear/w4_weight.hpp"

namespace inlay::npu {

// Of 16 channels.
inline index words_of_step(index bits) { return w4_step_bytes(bits) / 4; }

// Elements of less than a word, where their words lie.
inline Tensor elements_of(Tensor words, DType dtype) {
  const index per_word = bits(words.dtype) / bits(dtype);
  words.dtype = dtype;
  words.shape.columns *= per_word;
  words.pitch *= per_word;
  return words;
}

// Codes of some of a panel's channels, for so many slots, which lie in the order of blocks.
inline Tensor in_blocks(Tensor codes, index block, Shape shape) {
  codes.layout = Layout::nz;
  codes.block = block;
  codes.pitch = panel_rows;
  codes.shape = shape;
  return codes;
}

// A row of a permutation of words: blocks that fill the lanes, and steps that end where an operand may start.
index words_of_a_row(const Device& device, index words_of_block, index bits);
// Where the words of such a row come from: word j of channel n of a block goes from 16 j + n to j + n words_of_block;
// both are powers of two.
Tensor order_of_words(Core& core, Scratch& scratch, index words_of_block, index words_of_row);

// Codes of five and six bits become bytes, in the order of blocks of so many words.
class WideCodes {
 public:
  // Up to `words` words of nibbles at once.
  WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, index words);
  // Of the vector unit's memory, for each of them and besides.
  static constexpr index bytes_of_word = 4 + 2 * w4_group_multiple;
  static index bytes_besides(index words_of_row);
  // [1, words of steps as they lie] -> u8 [1, codes of so many words]; those beyond the last step are zeros.
  Tensor operator()(const Tensor& steps, index words);

 private:
  void make_places(const Tensor& part);
  void make_masks(const Tensor& place, const Tensor& part);
  void shuffle(const Tensor& to, const Tensor& from, const Tensor& places);
  void cut_out(const Tensor& bytes);

  Core& core_;
  index bits_, words_of_row_;
  Tensor lower_places_, upper_places_;  // of a row of the permutation
  Tensor masks_, factors_;  // of its codes: where the upper bits are in their byte, and what brings them above
  Tensor lower_, bytes_, upper_bytes_;
};

}  // namespace inlay::npu
