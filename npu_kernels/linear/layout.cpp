#include "npu_kernels/linear/layout.hpp"

#include <inlay/core/workspace.hpp>

#include <algorithm>
#include <limits>
#include <utility>

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

TileMaker maker_of(const Prepared& to) { return to.tiles ? to.tiles : repacked(to.source, to.parts.front().dtype); }

index channels_of(const RowSource& weight) {
  return weight.packed() ? weight.panels.extent(0) * panel_rows : weight.count;
}
index inputs_of(const RowSource& weight) {
  return weight.packed() ? weight.panels.extent(1) * weight.per_word() : weight.depth;
}

}  // namespace

Prepared halves(GlobalMemory& memory, const std::string& name, const RowSource& source, std::size_t parts) {
  Prepared result{.source = source};
  for (std::size_t i = 0; i < parts; ++i)
    result.parts.push_back(
        blocked_operand(memory, i == 0 ? name + ", high" : name + ", low", source.count, source.depth, DType::f16));
  result.power = memory.workspace(name + ", powers", {1, source.count}, DType::f32);
  return result;
}

bool lies_well(const Device& device, const RowSource& source, DType unit, index tiles) {
  if (source.dtype != unit) return false;
  if (source.packed()) return device.fractal_block(unit) == panel_rows && source.per_word() == 1;
  return !blocks_pay(device, tiles) && loads_as_rows(source.rows);
}

Prepared operand_of(GlobalMemory& memory, const std::string& name, const RowSource& source, DType unit,
                    std::size_t parts, index tiles) {
  if (lies_well(memory.device(), source, unit, tiles))
    return {.parts = {source.packed() ? panels_operand(source.panels, source.count) : rows_operand(source.rows)}};
  if (source.dtype != unit) return halves(memory, name, source, parts);
  return {.parts = {blocked_operand(memory, name, source.count, source.depth, unit)}, .source = source};
}

namespace {

void make_halves(Core& core, const Prepared& to) {
  const RowSource& source = to.source;
  const index count = source.count, all = source.depth;
  const DType dtype = to.parts.front().dtype;
  RowTile tile = row_tile(core.device(), dtype, all, 44);
  if (!source.packed()) tile.rows = rows_at_once(core, count);
  const index block = core.device().fractal_block(dtype);
  Scratch scratch(core);
  RowReader reader(core, scratch, source, tile.rows, tile.depth);
  const Shape shape{tile.rows, tile.depth};
  const Tensor x = scratch.alloc("x", shape, DType::f32);
  Ring out = core.ring("halves", Space::vector, shape, dtype, {2, Pipe::vector, Pipe::store}, Layout::nz);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);

  // Rows, filled up with zeros to whole blocks.
  const auto read = [&](index row, index rows, index k) {
    const index depth = std::min(tile.depth, all - k), padded = round_up(depth, block);
    if (padded > depth) core.vfill(x.slice(0, rows, 0, padded), 0);
    core.vcast(x.slice(0, rows, 0, depth), reader.read(row, rows, k, depth));
    reader.release();
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

}  // namespace

void prepare(Core& core, const Prepared& to) {
  if (!to.before()) return;
  if (to.power.present()) return make_halves(core, to);
  const Operand& part = to.parts.front();
  RowTile tile = row_tile(core.device(), part.dtype, part.depth, 8 * byte_size(part.dtype, 1));
  if (!to.tiles && !to.source.packed()) tile.rows = rows_at_once(core, part.rows);
  Scratch scratch(core);
  StoredTiles store(core, maker_of(to)(core, scratch, tile, 2), part, tile);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  store.all();
}

bool made_sooner(const Device& device, index cores, Products products, const RowSource& source) {
  const Path* path = device.path(Space::global, Space::staging);
  const DType dtype = products.left.front().dtype;
  if (!stages_for_vector(device) || path->nd2nz_extra() <= 0 || source.dtype != dtype) return false;
  products.right = {{.rows = source.count, .depth = source.depth, .dtype = dtype}};
  products.source_bits = bits(dtype);
  return makes_right(device, cores, products) &&
         bound_by_right(device, cores, products, product_tiles(device, cores, products, true));
}

Prepared laid_out(GlobalMemory& memory, const std::string& name, TileMaker tiles, Products& products) {
  Operand& right = products.right.front();
  const auto store = [&] { right = blocked_operand(memory, name, right.rows, right.depth, right.dtype); };
  if (!stages_for_vector(memory.device())) store();
  const bool made = makes_right(memory.device(), memory.cores(), products);
  if (!made && !right.blocked()) store();
  return {.parts = {right}, .tiles = std::move(tiles), .as_used = made};
}

Prepared laid_out(GlobalMemory& memory, const std::string& name, const RowSource& source, Products& products) {
  products.right = {{.rows = source.count, .depth = source.depth, .dtype = source.dtype}};
  products.source_bits = bits(source.dtype);
  Prepared right = laid_out(memory, name, TileMaker(), products);
  right.source = source;
  return right;
}

ProductPlan plan_products(GlobalMemory& memory, Products products, const Prepared& right) {
  products.right = right.parts;
  products.given = right.given();
  const ProductTiles tiles = product_tiles(memory.device(), memory.cores(), products, right.as_used);
  Tensor so_far;
  if (tiles.parts) so_far = memory.workspace("sums so far", {products.rows(), products.columns()}, products.sum);
  return {products, tiles, so_far, accumulator_workspace(memory, products, tiles)};
}

void multiply(Core& core, Scratch& scratch, const Prepared& right, const ProductPlan& plan, const Consumer& consume,
              bool meets, const MakeLeft& left) {
  if (!right.as_used) return multiply(core, plan, consume, {.left = left, .meet = meeting(core, meets)});
  const TileMaker maker = maker_of(right);
  if (right.stored()) {
    const RowTile stored{panel_rows, plan.tiles.stored_k};
    StoredTiles blocks(core, maker(core, scratch, stored, 2), right.parts.front(), stored);
    return multiply(core, plan, consume, {.left = left, .store_right = std::ref(blocks), .meet = meeting(core, meets)});
  }
  if (meets) core.sync_all();
  const DType dtype = right.parts.front().dtype;
  RowTile at_once = row_tile(core.device(), dtype, plan.tiles.chunk_k, 8 * 4 * byte_size(dtype, 1));
  if (right.depth_at_once > 0) at_once.depth = right.depth_at_once;
  multiply(core, plan, consume, {.right = maker(core, scratch, at_once, panels_ahead), .left = left});
}

Packing packing_of(const RowSource& weight, const BlockForm& form, const Device& device,
                   std::function<RowSource(GlobalMemory&)> bind) {
  const index channels = channels_of(weight);
  const index elements = round_up(weight.depth, device.fractal_block(form.unit)) * channels;
  const std::size_t bytes = form.parts * WorkspaceCutter::padded<std::byte>(byte_size(form.unit, elements)) +
                            (form.scaled ? WorkspaceCutter::padded<float>(channels) : 0);
  const auto lay_out = [form, channels, bind = std::move(bind)](GlobalMemory& memory, std::byte* to) {
    RowSource source = bind(memory);
    source.count = channels;
    source.depth = inputs_of(source);
    Prepared blocks = packed_blocks(memory, source, form, to, Use::out);
    blocks.source = source;
    return Program{.body = [=](Core& core) { prepare(core, blocks); },
                   .launch = {.cores = cores_for(ceil_div(channels, panel_rows), 1, memory.cores())}};
  };
  return {.bytes = bytes, .lay_out = lay_out};
}

Prepared packed_blocks(GlobalMemory& memory, const RowSource& weight, const BlockForm& form, std::byte* at, Use use) {
  const index block = memory.device().fractal_block(form.unit), channels = channels_of(weight);
  const index blocks = ceil_div(weight.depth, block);
  WorkspaceCutter cutter({at, 0});
  Prepared result;
  for (std::size_t i = 0; i < form.parts; ++i) {
    auto* const part = cutter.take<std::byte>(byte_size(form.unit, blocks * channels * block));
    const View<3> view(part, form.unit, {blocks, channels, block});
    result.parts.push_back({.rows = weight.count,
                            .depth = weight.depth,
                            .dtype = form.unit,
                            .blocks = memory.bind(i == 0 ? "packed w" : "packed w, low", view, use)});
  }
  if (form.scaled)
    result.power =
        memory.bind("packed w, powers", View<2>(cutter.take<float>(channels), DType::f32, {1, channels}), use).matrix();
  return result;
}

}  // namespace inlay::npu
