// Sums of a segment, scaled and added up.
#include <algorithm>

#include "npu_kernels/linear/w4_int8.hpp"

namespace inlay::npu {

W4Epilogue::W4Epilogue(Core& core, Scratch& scratch, const W4Int8& op, const ProductTiles& tiles)
    : core_(core),
      op_(op),
      whole_(op.segments.size() == 1),
      kept_(scratch.alloc("y in f32", {whole_ ? tiles.vector_m : kept_rows(core.vector_dim(), tiles), tiles.sum_n},
                          DType::f32)),
      dot_(scratch.alloc("dot products", {tiles.vector_m, tiles.sum_n}, DType::f32)),
      shift_(scratch.alloc("offsets", {tiles.vector_m, tiles.sum_n}, DType::f32)),
      rows_(core.ring<2>(
          "of rows", {{{"steps", Space::vector, {tiles.vector_m, 2}}, {"sums", Space::vector, {tiles.vector_m, 2}}}},
          {2, Pipe::load_vector, Pipe::vector})),
      channels_(core.ring<2>(
          "of channels", {{{"scales", Space::vector, {1, tiles.sum_n}}, {"offsets", Space::vector, {1, tiles.sum_n}}}},
          {2, Pipe::load_vector, Pipe::vector})),
      finished_(core, op.y, op.bias, {tiles.vector_m, tiles.sum_n}) {}

void W4Epilogue::operator()(const Sums& s) {
  const index m = s.tile.rows(), n = s.tile.columns(), group = op_.segments[static_cast<std::size_t>(s.step)].group;
  const bool offsets = op_.offsets.present();
  const auto window = [&](const Tensor& tile) { return tile.slice(0, m, 0, n); };
  const auto to_rows = rows_.acquire();
  const auto load_column = [&](const Tensor& to, const Tensor& from) {
    core_.copy(by_axes(to.slice(0, m, 0, 1)).at(1, 0), by_axes(from).at(0, s.step).slice(0, s.row, m));
  };
  load_column(to_rows[0], op_.steps);
  if (offsets) load_column(to_rows[1], op_.sums);
  rows_.commit();
  const auto to_channels = channels_.acquire();
  core_.copy(to_channels[0].slice(0, 1, 0, n), op_.scales.slice(group, 1, s.column, n));
  if (offsets) core_.copy(to_channels[1].slice(0, 1, 0, n), op_.offsets.slice(group, 1, s.column, n));
  channels_.commit();

  const Tensor dot = window(dot_), y = kept_.slice(whole_ ? 0 : s.at, m, 0, n);
  const auto of_rows = rows_.wait();
  const auto of_channels = channels_.wait();
  const Tensor step = of_rows[0].slice(0, m, 0, 1), sum = of_rows[1].slice(0, m, 0, 1);
  core_.vcast(dot, s.tile);
  if (offsets) {
    const Tensor shift = window(shift_);
    core_.vfill(shift, op_.weight.middle);
    core_.vbinary(VectorOp::mul, shift, shift, sum);
    core_.vbinary(VectorOp::add, dot, dot, shift);
    core_.vbroadcast_row(shift, of_channels[1].slice(0, 1, 0, n));
    core_.vbinary(VectorOp::mul, shift, shift, sum);
    core_.vbinary(VectorOp::mul, dot, dot, of_channels[0].slice(0, 1, 0, n));
    core_.vbinary(VectorOp::add, dot, dot, shift);
  } else {
    core_.vbinary(VectorOp::mul, dot, dot, of_channels[0].slice(0, 1, 0, n));
  }
  core_.vbinary(VectorOp::mul, dot, dot, step);
  if (s.step == 0)
    core_.vcast(y, dot);
  else
    core_.vbinary(VectorOp::add, y, y, dot);
  rows_.release();
  channels_.release();
  if (!s.last) return;
  finished_(y, s.row, s.column);
}

}  // namespace inlay::npu
