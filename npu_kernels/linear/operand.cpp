#include "npu_kernels/linear/operand.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Rows start at granules where there are two columns or more.
Shape tile_shape(const RowSource& source, index rows, index depth) {
  if (!source.packed()) return {rows, std::max<index>(2, depth)};
  return {1, ceil_div(depth, source.per_word()) * panel_rows};  // words lie side by side, as in global memory
}

}  // namespace

bool loads_as_rows(const NdTensor& rows) { return rows.matrix().error == nullptr; }

bool blocks_pay(const Device& device, index tiles) {
  const Path* path = device.path(Space::global, Space::staging);
  if (device.feeds_are_views()) return false;  // rows stay, and are loaded once (ProductTiles::keeps)
  constexpr double pass = 4;                   // to make them takes a load and a store, and all cores wait for it
  return static_cast<double>(tiles) * path->nd2nz_extra() >= pass;
}

Operand rows_operand(const NdTensor& rows) {
  const Tensor lines = rows.matrix();
  return {.rows = lines.rows(), .depth = lines.columns(), .dtype = lines.dtype, .lines = lines};
}

Operand blocked_operand(GlobalMemory& memory, const std::string& name, index rows, index depth, DType dtype) {
  const index block = memory.device().fractal_block(dtype);
  const Tensor all = memory.workspace(name, {ceil_div(depth, block) * rows, block}, dtype);
  return {.rows = rows, .depth = depth, .dtype = dtype, .blocks = by_axes(all).split(0, rows)};
}

Operand panels_operand(const NdTensor& panels, index rows) {
  return {.rows = rows, .depth = panels.extent(1), .dtype = panels.first.dtype, .blocks = panels, .turned = true};
}

void stage(Core& core, const Tensor& tile, const Operand& operand, index row, index rows, index k, index depth) {
  if (!operand.blocked()) return core.nd2nz(tile.slice(0, rows, 0, depth), operand.lines.slice(row, rows, k, depth));
  const index block = operand.blocks.extent(2), blocks = ceil_div(operand.turned ? rows : depth, block);
  if (operand.turned)
    return core.copy(by_axes(tile.slice(0, depth, 0, blocks * block)),
                     operand.blocks.slice(0, row / block, blocks).slice(1, k, depth));
  core.copy(by_axes(tile.slice(0, rows, 0, blocks * block)),
            operand.blocks.slice(0, k / block, blocks).slice(1, row, rows));
}

void store_blocks(Core& core, const Operand& operand, const Tensor& tile, index row, index k) {
  const index block = operand.blocks.extent(2);
  core.copy(operand.blocks.slice(0, k / block, tile.columns() / block).slice(1, row, tile.rows()), by_axes(tile));
}

RowReader::RowReader(Core& core, Scratch& scratch, const RowSource& source, index rows, index depth,
                     std::uint32_t on_their_way)
    : core_(core),
      source_(source),
      tiles_(core.ring("rows", Space::vector, tile_shape(source, rows, depth),
                       source.packed() ? source.panels.first.dtype : source.dtype,
                       {on_their_way, Pipe::load_vector, Pipe::vector})) {
  if (!source.packed()) return;
  const index words = std::max<index>(2, ceil_div(depth, source.per_word()));
  turned_ = scratch.alloc("turned words", {panel_rows, words}, source.panels.first.dtype);
}

Tensor RowReader::read(index row, index rows, index k, index depth) {
  if (!source_.packed()) {
    core_.copy(by_axes(tiles_.acquire().slice(0, rows, 0, depth)), source_.rows.slice(0, row, rows).slice(1, k, depth));
    tiles_.commit();
    return tiles_.wait().slice(0, rows, 0, depth);
  }
  const index per_word = source_.per_word(), words = ceil_div(depth, per_word);
  core_.copy(by_axes(tiles_.acquire().slice(0, 1, 0, words * panel_rows)).at(0, 0).split(0, panel_rows),
             source_.panels.at(0, row / panel_rows).slice(0, k / per_word, words));
  tiles_.commit();
  const Tensor panel = tiles_.wait().slice(0, 1, 0, words * panel_rows).reshape({words, panel_rows});
  core_.vtranspose(turned_.slice(0, panel_rows, 0, words), panel);
  Tensor result = turned_;
  result.dtype = source_.dtype;
  result.shape.columns *= per_word;
  result.pitch *= per_word;
  return result.slice(0, rows, 0, depth);
}

NdTensor one_each(const NdTensor& vector, index first, index count) {
  if (vector.extent(0) != 1) return vector.slice(0, first, count);
  NdTensor each = vector;
  each.extents[0] = count, each.strides[0] = 0;
  return each;
}

RowTile row_tile(const Device& device, DType dtype, index depth, index bytes_of_element) {
  const index block = device.fractal_block(dtype);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / 8 * 7 / panel_rows / bytes_of_element;
  return {panel_rows,
          std::min({round_up(depth, block), round_up(8192, block), std::max(block, round_down(room, block))})};
}

index rows_at_once(const Core& core, index rows) {
  return std::clamp<index>(ceil_div(rows, core.vector_workers()), 1, panel_rows);
}

namespace {

// Tiles of the unit's own type, or of bytes that become f16, from rows or from panels (MakeTile).
class RepackedTiles {
 public:
  RepackedTiles(Core& core, Scratch& scratch, const RowSource& source, DType to, RowTile at_once,
                std::uint32_t on_their_way)
      : core_(core),
        at_once_(at_once),
        less_(source.less),
        casts_(to != source.dtype),
        reader_(core, scratch, source, at_once.rows, at_once.depth, on_their_way),
        filled_up_(scratch.alloc("filled up", {at_once.rows, at_once.depth}, to)) {
    if (less_.present())
      zeros_.emplace(
          core.ring("zeros", Space::vector, {at_once.rows, 2}, DType::i8, {1, Pipe::load_vector, Pipe::vector}));
  }
  void operator()(const Tensor& tile, index row, index rows, index k, index depth) {
    for_pieces(row, rows, k, depth, at_once_, [&](index r, index count, index at, index part) {
      const index padded = round_up(part, tile.block);
      Tensor from = reader_.read(r, count, at, part);
      if (casts_ || padded > part) {
        const Tensor filled = filled_up_.slice(0, count, 0, padded), w = filled.slice(0, count, 0, part);
        if (padded > part) core_.vfill(filled, 0);
        core_.vcast(w, from);
        if (zeros_) subtract(w, r);
        from = filled;
      }
      core_.vpack_nz(tile.slice(r - row, count, at - k, padded), from);
      reader_.release();
    });
  }

 private:
  void subtract(const Tensor& w, index row) {
    core_.copy(by_axes(zeros_->acquire().slice(0, w.rows(), 0, 1)).at(1, 0), one_each(less_, row, w.rows()));
    zeros_->commit();
    core_.vbinary(VectorOp::sub, w, w, zeros_->wait().slice(0, w.rows(), 0, 1));
    zeros_->release();
  }

  Core& core_;
  RowTile at_once_;
  NdTensor less_;
  bool casts_;
  RowReader reader_;
  Tensor filled_up_;
  std::optional<Ring> zeros_;
};

}  // namespace

TileMaker repacked(const RowSource& source, DType to) {
  return [source, to](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t ahead) {
    return tiles_of(std::make_shared<RepackedTiles>(core, scratch, source, to, at_once, ahead));
  };
}

StoredTiles::StoredTiles(Core& core, MakeTile make, const Operand& to, RowTile at_once)
    : core_(core),
      make_(std::move(make)),
      to_(to),
      at_once_(at_once),
      out_(core.ring("blocks", Space::vector, {at_once.rows, at_once.depth}, to.dtype, {2, Pipe::vector, Pipe::store},
                     Layout::nz)) {}

void StoredTiles::piece(index row, index rows, index k, index depth) {
  const index padded = round_up(depth, to_.blocks.extent(2));
  make_(out_.acquire().slice(0, rows, 0, padded), row, rows, k, depth);
  out_.commit();
  store_blocks(core_, to_, out_.wait().slice(0, rows, 0, padded), row, k);
  out_.release();
}

void StoredTiles::operator()(index row, index rows, index k, index depth) {
  const index step = at_once_.rows * index{core_.vector_dim()};
  for (index r = core_.vector_idx() * at_once_.rows; r < rows; r += step)
    piece(row + r, std::min(at_once_.rows, rows - r), k, depth);
}

void StoredTiles::all() {
  if (to_.rows == 0 || to_.depth == 0) return;  // empty sums
  const index across = ceil_div(to_.depth, at_once_.depth), pieces = ceil_div(to_.rows, at_once_.rows) * across;
  for (index i = core_.vector_worker(); i < pieces; i += core_.vector_workers()) {
    const index row = i / across * at_once_.rows, k = i % across * at_once_.depth;
    piece(row, std::min(at_once_.rows, to_.rows - row), k, std::min(at_once_.depth, to_.depth - k));
  }
}

}  // namespace inlay::npu
