#include "npu_kernels/linear/split_f16.hpp"

#include <algorithm>
#include <limits>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// The largest power of two that is not above the row's largest finite element; 2^-112 for smaller ones.
class RowPower {
 public:
  RowPower(Core& core, Scratch& scratch, RowTile tile)
      : core_(core),
        power_(scratch.alloc("power", {tile.rows, 2}, DType::f32)),
        chunk_(scratch.alloc("largest of a chunk", {tile.rows, 2}, DType::f32)),
        size_(scratch.alloc("magnitude", {tile.rows, tile.depth}, DType::f32)) {}
  void start(index rows) { core_.vfill(column(power_, rows), least); }
  void add(const Tensor& x, const Tensor& mask) {
    const Tensor size = size_.slice(0, x.rows(), 0, x.columns());
    core_.vunary(VectorOp::abs, size, x);
    core_.vcompare(Compare::less, mask, size, std::numeric_limits<float>::infinity());
    core_.vselect(size, mask, size, mask);  // 0 where it is not finite
    const Tensor chunk = column(chunk_, x.rows()), power = column(power_, x.rows());
    core_.vreduce(VectorOp::reduce_max, chunk, size);
    core_.vbinary(VectorOp::max, power, power, chunk);
  }
  Tensor finish(index rows) {
    Tensor whole = column(power_, rows);
    whole.dtype = DType::i32;
    core_.vscalar(VectorOp::bit_and, whole, whole, std::int32_t{0x7f800000});
    return column(power_, rows);
  }
  // 2^14 / power
  Tensor scale(index rows) {
    const Tensor scale = column(chunk_, rows);
    core_.vfill(scale, half_scale);
    core_.vbinary(VectorOp::div, scale, scale, column(power_, rows));
    return scale;
  }

 private:
  static constexpr float least = 0x1p-112f;
  static Tensor column(const Tensor& tile, index rows) { return tile.slice(0, rows, 0, 1); }
  Core& core_;
  Tensor power_, chunk_, size_;
};

}  // namespace

RowTile row_tile(const Device& device, DType dtype, index depth, index bytes_of_element) {
  const index block = device.fractal_block(dtype);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / 8 * 7 / panel_rows / bytes_of_element;
  return {panel_rows,
          std::min({round_up(depth, block), round_up(8192, block), std::max(block, round_down(room, block))})};
}

index rows_at_once(const Core& core, index rows) {
  return std::clamp<index>(ceil_div(rows, core.vector_workers()), 1, panel_rows);
}

SplitF16 halves(GlobalMemory& memory, const std::string& name, index rows, index depth, std::size_t parts) {
  SplitF16 result;
  for (std::size_t i = 0; i < parts; ++i)
    result.parts.push_back(blocked_operand(memory, i == 0 ? name + ", high" : name + ", low", rows, depth, DType::f16));
  result.power = memory.workspace(name + ", powers", {1, rows}, DType::f32);
  return result;
}

SplitF16 blocks_of(GlobalMemory& memory, const std::string& name, index rows, index depth, DType dtype) {
  return {.parts = {blocked_operand(memory, name, rows, depth, dtype)}, .power = {}};
}

void make_halves(Core& core, const RowSource& source, const SplitF16& to) {
  const auto reader = [&](Core&, Scratch& scratch, RowTile tile) {
    return std::make_unique<RowReader>(core, scratch, source, tile.rows, tile.depth);
  };
  make_halves(core, source.count, source.depth, reader, to,
              source.packed() ? panel_rows : rows_at_once(core, source.count));
}

void make_halves(Core& core, index count, index all, const MakeReader& make_reader, const SplitF16& to, index at_once) {
  const bool scaled = to.power.present();
  const DType dtype = to.parts.front().dtype;
  RowTile tile = row_tile(core.device(), dtype, all, scaled ? 44 : 8 * byte_size(dtype, 1));
  tile.rows = at_once;
  const index block = core.device().fractal_block(dtype);
  Scratch scratch(core);
  const std::unique_ptr<RowTiles> reader = make_reader(core, scratch, tile);
  const Shape shape{tile.rows, tile.depth};
  const DType read_as = scaled ? DType::f32 : dtype;
  const Tensor x = scratch.alloc("x", shape, read_as);
  Ring out = core.ring("halves", Space::vector, shape, dtype, {2, Pipe::vector, Pipe::store}, Layout::nz);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);

  // Rows, filled up with zeros to whole blocks.
  const auto read = [&](index row, index rows, index k) {
    const index depth = std::min(tile.depth, all - k), padded = round_up(depth, block);
    if (padded > depth) core.vfill(x.slice(0, rows, 0, padded), 0);
    core.vcast(x.slice(0, rows, 0, depth), reader->read(row, rows, k, depth));
    reader->release();
    return x.slice(0, rows, 0, padded);
  };
  const auto write = [&](const Operand& part, const Tensor& rows, index row, index k) {
    core.vpack_nz(out.acquire().slice(0, rows.rows(), 0, rows.columns()), rows);
    out.commit();
    store_blocks(core, part, out.wait().slice(0, rows.rows(), 0, rows.columns()), row, k);
    out.release();
  };
  const index tiles = ceil_div(count, tile.rows), first = core.vector_worker(), step = core.vector_workers();
  const auto rows_at = [&](index row) { return std::min(tile.rows, count - row); };
  if (!scaled) {
    for (index row = first * tile.rows; row < tiles * tile.rows; row += step * tile.rows)
      for (index k = 0; k < all; k += tile.depth) write(to.parts.front(), read(row, rows_at(row), k), row, k);
    return;
  }
  const Tensor wide = scratch.alloc("a half in f32", shape, DType::f32);
  const Tensor half = scratch.alloc("a half", shape, dtype);
  Ring powers = core.ring("powers", Space::vector, {tile.rows, 2}, DType::f32, {2, Pipe::vector, Pipe::store});
  RowPower power(core, scratch, tile);
  for (index row = first * tile.rows; row < tiles * tile.rows; row += step * tile.rows) {
    const index rows = rows_at(row);
    power.start(rows);
    for (index k = 0; k < all; k += tile.depth) {
      const Tensor part = read(row, rows, k);
      power.add(part, wide.slice(0, rows, 0, part.columns()));
    }
    core.vcast(powers.acquire().slice(0, rows, 0, 1), power.finish(rows));
    powers.commit();
    core.copy(by_axes(to.power).at(0, 0).slice(0, row, rows), by_axes(powers.wait().slice(0, rows, 0, 1)).at(1, 0));
    powers.release();
    const Tensor scale = power.scale(rows);
    for (index k = 0; k < all; k += tile.depth) {
      const Tensor part = read(row, rows, k);
      const auto window = [&](const Tensor& full) { return full.slice(0, rows, 0, part.columns()); };
      core.vbinary(VectorOp::mul, part, part, scale);
      for (std::size_t h = 0; h < to.parts.size(); ++h) {
        core.vcast(window(half), part);
        if (h + 1 < to.parts.size()) {
          core.vcast(window(wide), window(half));
          core.vbinary(VectorOp::sub, part, part, window(wide));
        }
        write(to.parts[h], window(half), row, k);
      }
    }
  }
}

}  // namespace inlay::npu
