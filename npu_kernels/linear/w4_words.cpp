#include "npu_kernels/linear/w4_words.hpp"

#include <algorithm>
#include <bit>

namespace inlay::npu {

namespace {

std::int32_t log2_of(index power) {
  return static_cast<std::int32_t>(std::countr_zero(static_cast<std::uint64_t>(power)));
}

// A shuffle moves the upper bits of a channel as one element: a byte, or two of any type.
DType upper_type(index bits) { return bits == 5 ? DType::u8 : DType::f16; }
index upper_per_word(index codes) { return 32 / bits(upper_type(codes)); }

}  // namespace

index words_of_a_row(const Device& device, index words_of_block, index bits) {
  const index lanes = device.vector.bytes / 4, block = words_of_block * panel_rows;
  index row = block * std::max<index>(1, lanes / block);
  while (row / panel_rows * w4_step_bytes(bits) % index{device.vector.align} != 0) row *= 2;
  return row;
}

Tensor order_of_words(Core& core, Scratch& scratch, index words_of_block, index words_of_row) {
  const Tensor both = scratch.alloc("order of words", {2, words_of_row}, DType::i32);
  const Tensor from = both.row_slice(0, 1), part = both.row_slice(1, 1);
  const auto size = static_cast<std::int32_t>(words_of_block);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  core.viota(part, {});
  core.vscalar(VectorOp::bit_and, from, part, -size * std::int32_t{panel_rows});  // the block's first
  core.vscalar(VectorOp::shift_right, part, part, log2_of(words_of_block));
  core.vscalar(VectorOp::bit_and, part, part, std::int32_t{panel_rows - 1});
  core.vbinary(VectorOp::add, from, from, part);
  core.viota(part, {});
  core.vscalar(VectorOp::bit_and, part, part, size - 1);
  core.vscalar(VectorOp::shift_left, part, part, log2_of(panel_rows));
  core.vbinary(VectorOp::add, from, from, part);
  return from;
}

WideCodes::WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, Shape most)
    : core_(core),
      bits_(bits),
      words_of_row_(words_of_a_row(core.device(), words_of_block, bits)),
      upper_type_(upper_type(bits)),
      lower_places_(order_of_words(core, scratch, words_of_block, words_of_row_)),
      upper_places_(scratch.alloc("places of upper bits", {1, upper_per_word(bits) * words_of_row_}, DType::i32)),
      lower_(scratch.alloc("lower words", {1, most.rows * most.columns}, DType::i32)),
      upper_(scratch.alloc("upper words", lower_.shape, DType::i32)),
      part_(scratch.alloc("a part of them", lower_.shape, DType::i32)),
      bytes_(scratch.alloc("bytes of codes", {most.rows, w4_group_multiple * most.columns}, DType::u8)),
      upper_bytes_(scratch.alloc("bytes of upper bits", bytes_.shape, DType::u8)) {
  const Tensor steps = scratch.alloc("steps", upper_places_.shape, DType::i32);
  const auto per_word = upper_per_word(bits), step = per_word * words_of_step(bits);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  // An element of upper bits goes to all that its word has room for.
  core.viota(steps, {});
  core.vscalar(VectorOp::shift_right, steps, steps, log2_of(per_word));
  core.vshuffle(upper_places_, lower_places_, steps);
  // From word n of step s, which is 16 s + n so far, to where it lies.
  const auto lies = [&](const Tensor& places, index elements, index first) {
    const Tensor step_of = steps.slice(0, 1, 0, places.columns());
    core.vscalar(VectorOp::shift_right, step_of, places, log2_of(panel_rows));
    core.vscalar(VectorOp::mul, step_of, step_of, static_cast<std::int32_t>(elements - panel_rows));
    core.vbinary(VectorOp::add, places, places, step_of);
    if (first > 0) core.vscalar(VectorOp::add, places, places, static_cast<std::int32_t>(first));
  };
  lies(lower_places_, words_of_step(bits), 0);
  lies(upper_places_, step, per_word * panel_rows);
}

index WideCodes::bytes_of_places(index bits, index words_of_row) {
  return 4 * (2 + 2 * upper_per_word(bits)) * words_of_row;
}

WideCodes::Words WideCodes::apart(const Tensor& steps, index words) {
  const Words result{lower_.slice(0, 1, 0, words), upper_.slice(0, 1, 0, words)};
  shuffle(result.lower, steps, lower_places_);
  shuffle(elements_of(result.upper, upper_type_), elements_of(steps, upper_type_), upper_places_);
  raise(result.upper);
  return result;
}

// Whole rows, and what is left: a place beyond the source gives 0.
void WideCodes::shuffle(const Tensor& to, const Tensor& from, const Tensor& places) {
  const index row = places.columns(), row_of_steps = row / panel_rows * words_of_step(bits_);
  const index rows = from.columns() / row_of_steps, left = to.columns() - rows * row;
  const auto part = [](const Tensor& of, index first, index columns, index count) {
    return of.slice(0, 1, first * columns, count * columns).reshape({count, columns});
  };
  if (rows > 0) core_.vshuffle(part(to, 0, row, rows), part(from, 0, row_of_steps, rows), places);
  if (left == 0) return;
  core_.vshuffle(to.slice(0, 1, rows * row, left),
                 from.slice(0, 1, rows * row_of_steps, from.columns() - rows * row_of_steps),
                 places.slice(0, 1, 0, left));
}

// To the top of the nibbles of their slots, from the lowest bits of a word that has them several times.
void WideCodes::raise(const Tensor& upper) {
  const Tensor other = part_.slice(0, 1, 0, upper.columns());
  const auto with = [&](VectorOp op, const Tensor& words, std::uint32_t bits) {
    core_.vscalar(op, words, words, static_cast<std::int32_t>(bits));
  };
  if (bits_ == 6) {  // slots 4 .. 7 are there
    core_.vscalar(VectorOp::bit_and, other, upper, std::int32_t{0x3333});
    with(VectorOp::shift_left, other, 2);
    with(VectorOp::bit_and, upper, 0xcccc0000u);
  } else {
    // Bit j goes to 4 j + 3. A product adds up what four shifts give, of every second bit: where it goes there is
    // nothing else, nor a carry.
    core_.vscalar(VectorOp::bit_and, other, upper, std::int32_t{0xaa});
    with(VectorOp::mul, other, 1u << 6 | 1u << 12 | 1u << 18 | 1u << 24);
    with(VectorOp::bit_and, other, 0x80808080u);
    with(VectorOp::bit_and, upper, 0x55);
    with(VectorOp::mul, upper, 1u << 3 | 1u << 9 | 1u << 15 | 1u << 21);
    with(VectorOp::bit_and, upper, 0x08080808u);
  }
  core_.vbinary(VectorOp::bit_or, upper, upper, other);
}

Tensor WideCodes::joined(const Words& words, bool less_middle) {
  const index rows = words.lower.rows(), codes = w4_group_multiple * words.lower.columns();
  const auto bytes = [&](const Tensor& of) {
    return as(of.slice(0, rows, 0, codes), less_middle ? DType::i8 : DType::u8);
  };
  const Tensor upper = bytes(upper_bytes_), result = bytes(bytes_);
  const DType of_upper = less_middle ? turn_upper_bits(core_, words.upper, DType::u4) : DType::u4;
  core_.vcast(upper, elements_of(words.upper, of_upper));
  core_.vscalar(VectorOp::shift_left, upper, upper, static_cast<std::int32_t>(bits_ - 4));
  core_.vcast(result, elements_of(words.lower, DType::u4));
  core_.vbinary(VectorOp::bit_or, result, result, upper);
  return result;
}

}  // namespace inlay::npu
