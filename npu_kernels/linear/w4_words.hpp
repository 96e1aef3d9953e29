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

// A row of a permutation of words: blocks that fill the lanes, and steps that end where an operand may start.
index words_of_a_row(const Device& device, index words_of_block, index bits);
// Where the words of such a row come from: word j of channel n of a block goes from 16 j + n to j + n words_of_block;
// both are powers of two.
Tensor order_of_words(Core& core, Scratch& scratch, index words_of_block, index words_of_row);

// Codes of five and six bits become bytes.
class WideCodes {
 public:
  // In the order of blocks of the matrix unit, of so many words; up to `words` words of nibbles at once.
  WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, index words);
  // Or as rows of channels, up to `columns` words each.
  struct Rows {
    index columns;
  };
  WideCodes(Core& core, Scratch& scratch, index bits, Rows rows);
  // Of the vector unit's memory, in the order of blocks: for each word, and besides.
  static constexpr index bytes_of_word = 4 + 2 * w4_group_multiple;
  static index bytes_besides(index words_of_row);

  // [1, words of steps as they lie] -> u8 [1, codes of so many words], those beyond the last step are zeros; or
  // [16, codes] of the channels.
  Tensor in_blocks(const Tensor& steps, index words);
  Tensor in_rows(const Tensor& steps);

 private:
  struct Sizes {
    Shape words;            // of nibbles
    index of_row, pattern;  // words of a row of the permutation; codes that the masks are there for
    index upper;            // bytes of upper bits for each word
  };
  WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, const Sizes& sizes);
  void make_places(const Tensor& part, index upper);
  void make_pattern(const Tensor& places, const Tensor& part);
  void shuffle(const Tensor& to, const Tensor& from, const Tensor& places);
  Tensor joined(const Tensor& lower, const Tensor& upper);

  Core& core_;
  index bits_, words_of_row_;
  Tensor lower_places_, upper_places_;  // of a row of the permutation
  Tensor mask_, factor_;                // of slots: where the upper bits are in their byte, and what brings them above
  Tensor lower_, bytes_, upper_bytes_;
  Tensor upper_, turned_lower_, turned_upper_, spread_;  // of rows: words, and a word's bytes for its eight slots
};

}  // namespace inlay::npu
