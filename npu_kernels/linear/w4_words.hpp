// Words of codes in the vector unit's memory, as the makers of tiles work on them.
//
// Words of four and eight bits are of their own type as they lie. A step of five or six bits is nibbles and upper bits
// (ops/linear_w4a16.hpp), which no unit unpacks: two shuffles take it apart, into a word of nibbles for each channel
// and one that has the upper bits of the same slots at the top of its nibbles, and what both are unpacked to is joined:
//
//   steps                              lower words               upper words (5 bits u000, 6 bits uu00)
//   | nibbles | upper bits |  ..       | s7 s6 .. s0 |  ..       | s7 s6 .. s0 |  ..
//
//   u4 -> bytes    lower | upper << (bits - 4)    q
//   i4             upper turned                   q - 2^(bits - 1)
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

// Codes of five and six bits.
class WideCodes {
 public:
  struct Words {  // alike, i32
    Tensor lower, upper;
  };
  // Up to `most` words of each at once, in the order of blocks of so many words; 1: as they lie.
  WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, Shape most);
  // Of the vector unit's memory: for each word of nibbles, and for the places that words come from.
  static constexpr index bytes_of_word = 3 * 4 + 2 * w4_group_multiple;
  static index bytes_of_places(index bits, index words_of_row);
  // [1, words of steps as they lie] -> [1, words] each; those beyond the last step are zeros.
  Words apart(const Tensor& steps, index words);
  // -> [rows, 8 times the columns], u8, or i8 less their middle.
  Tensor joined(const Words& words, bool less_middle);

 private:
  void shuffle(const Tensor& to, const Tensor& from, const Tensor& places);
  void raise(const Tensor& upper);

  Core& core_;
  index bits_, words_of_row_;
  DType upper_type_;                    // whose elements a step has one of for each channel
  Tensor lower_places_, upper_places_;  // of a row
  Tensor lower_, upper_, part_, bytes_, upper_bytes_;
};

}  // namespace inlay::npu
