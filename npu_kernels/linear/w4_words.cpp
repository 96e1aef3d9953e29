#include "npu_kernels/linear/w4_words.hpp"

#include <bit>

namespace inlay::npu {

namespace {

constexpr index slots = w4_group_multiple;  // of a word

std::int32_t log2_of(index power) {
  return static_cast<std::int32_t>(std::countr_zero(static_cast<std::uint64_t>(power)));
}

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

WideCodes::WideCodes(Core& core, Scratch& scratch, index bits, index words_of_block, index words)
    : core_(core),
      bits_(bits),
      words_of_row_(words_of_a_row(core.device(), words_of_block, bits)),
      lower_places_(order_of_words(core, scratch, words_of_block, words_of_row_)),
      upper_places_(scratch.alloc("places of upper bits", {1, slots * words_of_row_}, DType::i32)),
      masks_(scratch.alloc("masks", upper_places_.shape, DType::u8)),
      factors_(scratch.alloc("factors", upper_places_.shape, DType::f16)),
      lower_(scratch.alloc("lower words", {1, words}, DType::i32)),
      bytes_(scratch.alloc("codes in bytes", {1, slots * words}, DType::u8)),
      upper_bytes_(scratch.alloc("upper bits in bytes", bytes_.shape, DType::u8)) {
  const Tensor part = scratch.alloc("parts of places", upper_places_.shape, DType::i32);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  make_masks(upper_places_, part);
  make_places(part);
}

index WideCodes::bytes_besides(index words_of_row) { return words_of_row * (2 * 4 + slots * (2 * 4 + 1 + 2)); }

// From 16 s + n, word n of step s, to where it lies; and to the byte that has the upper bits of the word's slot.
void WideCodes::make_places(const Tensor& part) {
  const auto wide = static_cast<std::int32_t>(bits_ - 4);  // bytes of a channel's upper bits
  const auto with = [&](VectorOp op, const Tensor& to, const Tensor& from, std::int32_t number) {
    core_.vscalar(op, to, from, number);
  };
  core_.viota(part, {});
  with(VectorOp::shift_right, part, part, log2_of(slots));
  core_.vshuffle(upper_places_, lower_places_, part);
  with(VectorOp::shift_right, part, upper_places_, log2_of(panel_rows));
  with(VectorOp::add, part, part, 1);
  with(VectorOp::shift_left, part, part, log2_of(4 * panel_rows));  // bytes of nibbles, of this step and those before
  with(VectorOp::mul, upper_places_, upper_places_, wide);
  core_.vbinary(VectorOp::add, upper_places_, upper_places_, part);
  if (wide == 2) {
    core_.viota(part, {});
    with(VectorOp::shift_right, part, part, 1);
    with(VectorOp::bit_and, part, part, 1);
    core_.vbinary(VectorOp::add, upper_places_, upper_places_, part);
  }
  const Tensor step = part.slice(0, 1, 0, words_of_row_);
  with(VectorOp::shift_right, step, lower_places_, log2_of(panel_rows));
  with(VectorOp::mul, step, step, 4 * wide);
  core_.vbinary(VectorOp::add, lower_places_, lower_places_, step);
}

// Upper bits of slot j start at bit j, or at 4 (j % 2) + 2 (j / 4) of their byte.
void WideCodes::make_masks(const Tensor& place, const Tensor& part) {
  const auto with = [&](VectorOp op, const Tensor& to, std::int32_t number) { core_.vscalar(op, to, to, number); };
  core_.viota(place, {});
  with(VectorOp::bit_and, place, std::int32_t{slots - 1});
  if (bits_ == 6) {
    core_.vscalar(VectorOp::bit_and, part, place, std::int32_t{1});
    with(VectorOp::shift_left, part, 2);
    with(VectorOp::shift_right, place, 2);
    with(VectorOp::shift_left, place, 1);
    core_.vbinary(VectorOp::add, place, place, part);
  }
  core_.vfill(part, 1);
  core_.vbinary(VectorOp::shift_left, part, part, place);
  core_.vfill(factors_, 16);
  core_.vbinary(VectorOp::div, factors_, factors_, part);
  with(VectorOp::mul, part, bits_ == 6 ? 3 : 1);
  core_.vcast(masks_, part);
}

// Whole rows, and what is left: a place beyond the source gives 0.
void WideCodes::shuffle(const Tensor& to, const Tensor& from, const Tensor& places) {
  const index row = places.columns(), bytes_of_steps = words_of_row_ / panel_rows * w4_step_bytes(bits_);
  const index row_of_steps = bytes_of_steps / byte_size(from.dtype, 1);
  const index rows = from.columns() / row_of_steps, left = to.columns() - rows * row;
  const auto part = [](const Tensor& of, index columns, index count) {
    return of.slice(0, 1, 0, columns * count).reshape({count, columns});
  };
  if (rows > 0) core_.vshuffle(part(to, row, rows), part(from, row_of_steps, rows), places);
  if (left == 0) return;
  core_.vshuffle(to.slice(0, 1, rows * row, left),
                 from.slice(0, 1, rows * row_of_steps, from.columns() - rows * row_of_steps),
                 places.slice(0, 1, 0, left));
}

Tensor WideCodes::operator()(const Tensor& steps, index words) {
  const Tensor lower = lower_.slice(0, 1, 0, words), result = bytes_.slice(0, 1, 0, slots * words);
  const Tensor upper = upper_bytes_.slice(0, 1, 0, slots * words);
  shuffle(lower, steps, lower_places_);
  shuffle(upper, elements_of(steps, DType::u8), upper_places_);
  const index row = masks_.columns(), rows = upper.columns() / row, left = upper.columns() - rows * row;
  if (rows > 0) cut_out(upper.slice(0, 1, 0, rows * row).reshape({rows, row}));
  if (left > 0) cut_out(upper.slice(0, 1, rows * row, left));
  core_.vcast(result, elements_of(lower, DType::u4));
  core_.vbinary(VectorOp::bit_or, result, result, upper);
  return result;
}

void WideCodes::cut_out(const Tensor& bytes) {
  core_.vbinary(VectorOp::bit_and, bytes, bytes, masks_.slice(0, 1, 0, bytes.columns()));
  core_.vbinary(VectorOp::mul, bytes, bytes, factors_.slice(0, 1, 0, bytes.columns()));
}

}  // namespace inlay::npu
