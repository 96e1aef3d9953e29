#include "npu_kernels/linear/repack.hpp"

#include <algorithm>

#include "npu_kernels/linear/split_f16.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Columns at once: whole blocks, and of groups that are cut nowhere else than at a tile's start.
index depth_at_once(const Core& core, const ProductTiles& tiles, DType dtype, index bytes_of_element, index group) {
  const index room = row_tile(core.device(), dtype, tiles.chunk_k, 8 * bytes_of_element).depth;
  const index whole = round_down(room, group);
  return whole > 0 && whole % core.device().fractal_block(dtype) == 0 ? whole : room;
}

// visit(row, rows, k, depth) of panels and pieces; rows of the tile are those of the operand less `first`.
template <class Visit> void for_pieces(index row, index rows, index k, index depth, index at_once, Visit&& visit) {
  for (index r = 0; r < rows; r += panel_rows)
    for (index i = 0; i < depth; i += at_once)
      visit(row + r, std::min(panel_rows, rows - r), k + i, std::min(at_once, depth - i));
}

}  // namespace

Tensor FilledUp::operator()(const Tensor& w, index padded) {
  if (padded == w.columns()) return w;
  const Tensor filled = filled_.slice(0, w.rows(), 0, padded);
  core_.vfill(filled, 0);
  core_.vcast(filled.slice(0, w.rows(), 0, w.columns()), w);
  return filled;
}

RepackedTiles::RepackedTiles(Core& core, Scratch& scratch, const RowSource& source, const ProductTiles& tiles)
    : core_(core),
      depth_(depth_at_once(core, tiles, source.dtype, 4 * byte_size(source.dtype, 1), 1)),
      reader_(core, scratch, source, panel_rows, depth_, panels_ahead),
      filled_up_(core, scratch, source.dtype, depth_) {}

void RepackedTiles::operator()(const Tensor& tile, index row, index rows, index k, index depth) {
  for_pieces(row, rows, k, depth, depth_, [&](index r, index count, index at, index part) {
    const index padded = round_up(part, tile.block);
    const Tensor w = filled_up_(reader_.read(r, count, at, part), padded);
    core_.vpack_nz(tile.slice(r - row, count, at - k, padded), w);
    reader_.release();
  });
}

StoredBlocks::StoredBlocks(Core& core, Scratch& scratch, const RowSource& source, const Operand& to, index depth)
    : core_(core),
      to_(to),
      reader_(core, scratch, source, panel_rows, depth),
      filled_up_(core, scratch, source.dtype, depth),
      out_(core.ring("w", Space::vector, {panel_rows, depth}, source.dtype, {2, Pipe::vector, Pipe::store},
                     Layout::nz)) {}

void StoredBlocks::operator()(index row, index rows, index k, index depth) {
  const index block = to_.blocks.extent(2), step = panel_rows * index{core_.vector_dim()};
  for (index r = core_.vector_idx() * panel_rows; r < rows; r += step) {
    const index count = std::min(panel_rows, rows - r), padded = round_up(depth, block);
    const Tensor w = filled_up_(reader_.read(row + r, count, k, depth), padded);
    core_.vpack_nz(out_.acquire().slice(0, count, 0, padded), w);
    out_.commit();
    reader_.release();
    store_blocks(core_, to_, out_.wait().slice(0, count, 0, padded), row + r, k);
    out_.release();
  }
}

bool make_or_store(GlobalMemory& memory, const std::string& name, Products& products, bool may_be_made) {
  Operand& right = products.right.front();
  const auto store = [&] { right = blocked_operand(memory, name, right.rows, right.depth, right.dtype); };
  if (!stages_for_vector(memory.device())) store();
  const bool made = may_be_made && makes_right(memory.device(), memory.cores(), products);
  if (!made && !right.blocked()) store();
  return made;
}

bool made_sooner(const Device& device, index cores, Products products, const RowSource& source) {
  const Path* path = device.path(Space::global, Space::staging);
  const DType dtype = products.left.front().dtype;
  if (!stages_for_vector(device) || path->nd2nz_extra() <= 0 || source.dtype != dtype) return false;
  products.right = {{.rows = source.count, .depth = source.depth, .dtype = dtype, .lines = {}, .blocks = {}}};
  products.source_bits = bits(dtype);
  return makes_right(device, cores, products) &&
         bound_by_right(device, cores, products, product_tiles(device, cores, products, true));
}

LaidOut laid_out(GlobalMemory& memory, const std::string& name, const RowSource& source, Products& products) {
  const DType dtype = products.left.front().dtype;
  products.right = {{.rows = source.count, .depth = source.depth, .dtype = dtype, .lines = {}, .blocks = {}}};
  products.source_bits = bits(source.dtype);
  const bool made = make_or_store(memory, name, products, source.dtype == dtype);
  return {.source = source, .blocks = products.right.front(), .made = made};
}

LaidOut as_packed(const RowSource& source, const Operand& packed, Products& products) {
  products.right = {packed};
  products.given = true;
  return {.source = source, .blocks = packed, .packed = true};
}

void lay_out_before(Core& core, const LaidOut& right) {
  if (!right.made && !right.packed) make_halves(core, right.source, {.parts = {right.blocks}, .power = {}});
}

void multiply(Core& core, Scratch& scratch, const LaidOut& right, const Products& products, const ProductTiles& tiles,
              const Tensor& handover, const Consumer& consume, bool meets) {
  if (right.packed) return multiply(core, products, tiles, handover, consume, {.meet = meeting(core, meets)});
  if (right.stored()) {
    StoredBlocks blocks(core, scratch, right.source, right.blocks, tiles.stored_k);
    const Makers makers{.store_right = std::ref(blocks), .meet = meeting(core, meets)};
    return multiply(core, products, tiles, handover, consume, makers);
  }
  if (meets || !right.made) core.sync_all();
  if (!right.made) return multiply(core, products, tiles, handover, consume);
  RepackedTiles blocks(core, scratch, right.source, tiles);
  multiply(core, products, tiles, handover, consume, {.right = std::ref(blocks)});
}

bool DequantizedTiles::takes(const W4Weight& weight) { return !weight.shifts() && weight.scales.dtype == DType::f16; }

DequantizedTiles::DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, const ProductTiles& tiles)
    : core_(core),
      weight_(weight),
      depth_(depth_at_once(core, tiles, DType::f16, 6, std::min(weight.group, tiles.chunk_k))),
      codes_(core, scratch, weight.codes, panel_rows, depth_, panels_ahead),
      scales_(core, scratch, weight.scales, panel_rows, depth_ / weight.group + 2, panels_ahead),
      bytes_(scratch.alloc("codes in bytes", {panel_rows, depth_}, DType::i8)),
      halves_(scratch.alloc("w", {panel_rows, depth_}, DType::f16)) {}

void DequantizedTiles::operator()(const Tensor& tile, index row, index rows, index k, index depth) {
  for_pieces(row, rows, k, depth, depth_, [&](index r, index count, index at, index part) {
    const index padded = round_up(part, tile.block), group = weight_.group;
    Tensor codes = codes_.read(r, count, at, part);
    Tensor words = codes;
    words.dtype = DType::i32;
    words.shape.columns = ceil_div(part, weight_.codes.per_word());
    words.pitch /= weight_.codes.per_word();
    codes.dtype = turn_upper_bits(core_, words, weight_.codes.dtype);
    const Tensor bytes = bytes_.slice(0, count, 0, part), w = halves_.slice(0, count, 0, padded);
    core_.vcast(bytes, codes);
    codes_.release();
    if (padded > part) core_.vfill(w, 0);
    for (index first = 0; first < part;) {
      const index head = (at + first) % group, last = head == 0 ? part : std::min(part, first + group - head);
      const index groups = ceil_div(head + last - first, group);
      const Tensor to = halves_.slice(0, count, first, last - first),
                   from = bytes_.slice(0, count, first, last - first);
      const Tensor scales = scales_.read(r, count, (at + first) / group, groups);
      if (groups == 1)
        core_.vbinary(VectorOp::mul, to, from, scales);
      else
        core_.vgrouped(VectorOp::mul, to, from, scales, group);
      scales_.release();
      first = last;
    }
    core_.vpack_nz(tile.slice(r - row, count, at - k, padded), w);
  });
}

}  // namespace inlay::npu
