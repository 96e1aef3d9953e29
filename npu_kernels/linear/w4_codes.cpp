#include "npu_kernels/linear/w4_codes.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

index words_of(const RowSource& codes, index slots) { return ceil_div(slots, codes.per_word()); }

index words_of_a_row(const Device& device, index words_of_block) {
  const index lanes = device.vector.bytes / 4, block = words_of_block * panel_rows;
  return block * std::max<index>(1, lanes / block);
}

}  // namespace

index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot) {
  const index block = device.fractal_block(DType::f16);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / bytes_of_slot;
  return std::min(round_up(std::max<index>(depth, 1), block),
                  round_down(std::min<index>(room, 8192), std::max<index>(block, 64)));
}

index W4Codes::bytes(const Device& device, const RowSource& codes, index depth, std::uint32_t ahead) {
  const index row = words_of_a_row(device, device.fractal_block(DType::f16) / codes.per_word());
  return 4 * ((index{ahead} + 1) * round_up(words_of(codes, depth) * panel_rows, row) + 2 * row);
}

W4Codes::W4Codes(Core& core, Scratch& scratch, const RowSource& codes, bool less_middle, index depth,
                 std::uint32_t ahead)
    : core_(core),
      codes_(codes),
      less_middle_(less_middle),
      block_(core.device().fractal_block(DType::f16)),
      at_once_(depth),
      words_of_block_(block_ / codes.per_word()),
      words_of_row_(words_of_a_row(core.device(), words_of_block_)),
      words_(core.ring("words", Space::vector, {1, round_up(words_of(codes, depth) * panel_rows, words_of_row_)},
                       DType::i32, {ahead, Pipe::load_vector, Pipe::vector})),
      order_(scratch.alloc("order of words", {2, words_of_row_}, DType::i32)),
      permuted_(scratch.alloc("words of blocks", {1, round_up(words_of(codes, depth) * panel_rows, words_of_row_)},
                              DType::i32)) {
  make_order();
}

// Word j of channel n of a block goes from 16 j + n to j + n words_of_block; both are powers of two.
void W4Codes::make_order() {
  const AutoBarrier chain = core_.auto_barrier(Pipe::vector);
  const Tensor from = order_.row_slice(0, 1), part = order_.row_slice(1, 1);
  const auto size = static_cast<std::int32_t>(words_of_block_);
  std::int32_t bits_of_word = 0;
  while (1 << bits_of_word < size) ++bits_of_word;
  core_.viota(part, {});
  core_.vscalar(VectorOp::bit_and, from, part, -size * std::int32_t{panel_rows});  // the block's first
  core_.vscalar(VectorOp::shift_right, part, part, bits_of_word);
  core_.vscalar(VectorOp::bit_and, part, part, std::int32_t{panel_rows - 1});
  core_.vbinary(VectorOp::add, from, from, part);
  core_.viota(part, {});
  core_.vscalar(VectorOp::bit_and, part, part, size - 1);
  core_.vscalar(VectorOp::shift_left, part, part, std::int32_t{4});
  core_.vbinary(VectorOp::add, from, from, part);
}

void W4Codes::operator()(const Tensor& tile, index row, index rows, index k, index depth) {
  for (index r = 0; r < rows; r += panel_rows)
    for (index at = 0; at < depth; at += at_once_) {
      const index part = std::min(at_once_, depth - at);
      panel(tile.slice(r, std::min(panel_rows, rows - r), at, round_up(part, block_)), row + r, k + at, part);
    }
}

void W4Codes::panel(const Tensor& tile, index row, index k, index depth) {
  const index count = words_of(codes_, depth) * panel_rows, padded = round_up(count, words_of_row_);
  core_.copy(by_axes(words_.acquire().slice(0, 1, 0, count)).at(0, 0).split(0, panel_rows),
             codes_.panels.at(0, row / panel_rows).slice(0, k / codes_.per_word(), count / panel_rows));
  words_.commit();
  const Tensor words = words_.wait().slice(0, 1, 0, padded), permuted = permuted_.slice(0, 1, 0, padded);
  if (padded > count) core_.vfill(words.slice(0, 1, count, padded - count), 0);
  const Shape rows_of_blocks{padded / words_of_row_, words_of_row_};
  core_.vshuffle(permuted.reshape(rows_of_blocks), words.reshape(rows_of_blocks), order_.row_slice(0, 1));
  words_.release();
  Tensor codes = permuted;
  codes.dtype = less_middle_ ? turn_upper_bits(core_, permuted, codes_.dtype) : codes_.dtype;
  codes.layout = Layout::nz;
  codes.block = block_;
  codes.pitch = panel_rows;
  codes.shape = tile.shape;
  core_.vcast(tile, codes);
}

// Two tiles of words and one of blocks of them, four bytes a word for 16 channels, and two of f16 on their way out.
index W4StoredCodes::slots_in(const Device& device, const RowSource& codes, index bytes) {
  const index block = device.fractal_block(DType::f16);
  const index bytes_of_slot = 3 * 4 * panel_rows / codes.per_word() + 2 * 2 * panel_rows;
  const index order = 2 * 4 * words_of_a_row(device, block / codes.per_word());
  return round_down((bytes - order) / bytes_of_slot, std::max<index>(block, 64));
}

W4StoredCodes::W4StoredCodes(Core& core, Scratch& scratch, const RowSource& codes, bool less_middle, const Operand& to,
                             index depth)
    : core_(core),
      count_(codes.count),
      to_(to),
      codes_(core, scratch, codes, less_middle, depth, 2),
      out_(core.ring("codes", Space::vector, {panel_rows, depth}, DType::f16, {2, Pipe::vector, Pipe::store},
                     Layout::nz)) {}

void W4StoredCodes::panel(index row, index k, index depth) {
  const index rows = std::min(panel_rows, count_ - row), padded = round_up(depth, to_.blocks.extent(2));
  codes_(out_.acquire().slice(0, rows, 0, padded), row, rows, k, depth);
  out_.commit();
  store_blocks(core_, to_, out_.wait().slice(0, rows, 0, padded), row, k);
  out_.release();
}

void W4StoredCodes::operator()(index row, index rows, index k, index depth) {
  const index step = panel_rows * index{core_.vector_dim()};
  for (index r = core_.vector_idx() * panel_rows; r < rows; r += step) panel(row + r, k, depth);
}

void make_w4_codes(Core& core, const RowSource& codes, bool less_middle, const Operand& to) {
  // Two tiles of words and one of blocks of them, four bytes a word for 16 channels, and two of f16 on their way out.
  const index per_word = codes.per_word(), bytes_of_slot = 3 * 4 * panel_rows / per_word + 2 * 2 * panel_rows;
  const index depth = w4_slots_at_once(core.device(), codes.depth, bytes_of_slot / 3 * 4);
  Scratch scratch(core);
  W4StoredCodes store(core, scratch, codes, less_middle, to, depth);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const index across = ceil_div(codes.depth, depth), tiles = ceil_div(codes.count, panel_rows) * across;
  for (index i = core.vector_worker(); i < tiles; i += core.vector_workers()) {
    const index k = i % across * depth;
    store.panel(i / across * panel_rows, k, std::min(depth, codes.depth - k));
  }
}

}  // namespace inlay::npu
