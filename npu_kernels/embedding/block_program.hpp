// What programs for rows of GGUF blocks share: a walk over whole blocks of a row, their fields by DMA, results by DMA.
#pragma once

#include "npu_kernels/embedding/blocks.hpp"

namespace inlay::npu {

class BlockProgram {
 public:
  BlockProgram(Core& core, const BlockTable& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, {.rows = op.y.extent(0), .columns = op.y.extent(1)}, need(),
              {.column_group = op.block(), .min_columns = op.block(), .max_rows = 1}),
        blocks_(walk_.tile().columns / op.block()) {}
  virtual ~BlockProgram() = default;

  void run() {
    for (index step = 0; step < walk_.steps(); ++step) {
      window_ = walk_.at(step);
      now_ = window_.columns / op_.block();
      unpack();
    }
  }

 protected:
  virtual void unpack() = 0;

  // `count` numbers of each block, from `byte` on.
  rows::Input field(const char* name, DType type, index byte, index count) {
    const auto extents = [block = op_.block(), count](const rows::Window& window) {
      return Shape{window.columns / block, count};
    };
    const auto load = [&op = op_, type, byte, count](Core& core, const Tensor& tile, const rows::Window& window) {
      const index size = bits(type) / 8, first = window.column / op.block() * op.bytes() + byte;
      NdTensor part = op.table.at(0, 0).slice(0, first, 1);  // bytes anywhere, as numbers
      part.first.dtype = type;
      part.rank = 2;
      part.extents = {tile.rows(), count};
      part.strides = {op.bytes() / size, 1};
      core.copy_row(by_axes(tile), part, NamedRow::of(op.table, op.ids, window.row));
    };
    return {core_, name, walk_, type, Shape{blocks_, std::max<index>(2, count)}, extents, load, 1};
  }
  Tensor tile(DType type, index columns) { return core_.alloc("codes", Space::vector, {blocks_, columns}, type); }
  static Tensor part(const Tensor& of, index rows) { return of.slice(0, rows, 0, of.columns()); }
  Tensor now(const Tensor& of) const { return part(of, now_); }

  // f32 of the low or the high halves of bytes; `spare` is of bytes.
  void half(const Tensor& to, const Tensor& bytes, bool high, const Tensor& spare) {
    core_.vscalar(high ? VectorOp::shift_right : VectorOp::bit_and, spare, bytes, std::int32_t{high ? 4 : 15});
    core_.vcast(to, spare);
  }

  // Values, `run` side by side in y, are part `at` of the `parts` that take turns there: [blocks, .., parts, run].
  Ring results(index run) {
    return core_.ring("y", Space::vector, {walk_.tile().columns / run, run}, op_.y.first.dtype,
                      {2, Pipe::vector, Pipe::store});
  }
  void give(Ring& y, const Tensor& values, index run, index parts, index at) {
    core_.vscalar(VectorOp::mul, values, values, op_.scale);
    const index count = values.elements() / run;
    const Tensor slot = y.acquire().slice(0, count, 0, run);
    core_.vcast(slot, values.columns() == run ? values : values.reshape({count, run}));
    y.commit();
    const NdTensor row = op_.y.at(0, window_.row).slice(0, window_.column, window_.columns);
    core_.copy(row.split(0, run).split(0, parts).at(1, at), by_axes(y.wait().slice(0, count, 0, run)));
    y.release();
  }

  Core& core_;
  const BlockTable& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  const index blocks_;  // of a whole tile
  rows::Window window_;
  index now_ = 0;  // blocks of this step

 private:
  static rows::Need need() {
    rows::Need all;
    for (int tile = 0; tile < 20; ++tile) all.spare();  // small fields start at granules, whatever they hold
    return all;
  }
};

// Q2_K Q3_K Q5_0 Q5_1 Q5_K IQ4_NL IQ4_XS MXFP4
void embed_bit_fields(Core& core, const BlockTable& op);

}  // namespace inlay::npu
