#include "npu_kernels/linear/w4_weight.hpp"

#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Words of codes with the upper bit of each turned: q is q - 2^(bits - 1) in two's complement, of the type that it
// gives.
DType turn_upper_bits(Core& core, const Tensor& words, DType codes) {
  const bool four = codes == DType::u4;
  core.vscalar(VectorOp::bit_xor, words, words, static_cast<std::int32_t>(four ? 0x88888888u : 0x80808080u));
  return four ? DType::i4 : DType::i8;
}

// Columns at once: whole blocks, and of groups that are cut nowhere else than at a tile's start.
RowTile tile_of_groups(const Device& device, RowTile room, index group) {
  const index whole = round_down(room.depth, std::min(group, room.depth));
  const bool in_blocks = whole > 0 && whole % device.fractal_block(DType::f16) == 0;
  return {panel_rows, in_blocks ? whole : room.depth};
}

index words_of(const RowSource& codes, index slots) { return ceil_div(slots, codes.per_word()); }

index words_of_a_row(const Device& device, index words_of_block) {
  const index lanes = device.vector.bytes / 4, block = words_of_block * panel_rows;
  return block * std::max<index>(1, lanes / block);
}

// Codes of `depth` slots that are looked up at once: whole blocks of 16 channels, in an eighth of the vector unit's
// memory.
index looked_up_at_once(const Device& device, index depth) {
  const index block = device.fractal_block(DType::f16), of_slot = panel_rows * (CodeValues::bytes_of_code + 1);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / 8;
  return panel_rows * std::clamp(round_down(room / of_slot, block), block, round_up(std::max<index>(depth, 1), block));
}

// Sixteen values, which come into another tile; places and values of codes.
index bytes_of_look_up(const Device& device, const W4Weight& weight, index depth) {
  if (!weight.codebook.present()) return 0;
  const index granule = static_cast<index>(device.memory(Space::vector).align);
  return 2 * round_up(w4_codebook, granule) + looked_up_at_once(device, depth) * (CodeValues::bytes_of_code + 1);
}

// Two tiles of words and one of blocks of them, four bytes a word for 16 channels, and two of f16 on their way out,
// whose blocks have the unit's rows.
index bytes_of_stored_slot(const Device& device, const RowSource& codes) {
  return 3 * 4 * panel_rows / codes.per_word() + 2 * 2 * round_up(panel_rows, device.matrix.m_granule);
}

}  // namespace

W4Weight w4_weight(GlobalMemory& memory, const LinearW4a16<Host>& op) {
  const index n = op.y.extents[1], slots = op.slots();
  const ConstView<3> words{op.codes.data, DType::i32, {op.codes.extents[0], op.codes.extents[1], panel_rows}};
  W4Weight weight{.codes = {.panels = memory.bind("codes", words),
                            .dtype = op.bits == 4 ? DType::u4 : DType::u8,
                            .count = n,
                            .depth = slots}};
  const auto per_group = [&](const char* name, const ConstView<3>& view) {
    if (!view.present()) return RowSource{};
    return RowSource{.panels = memory.bind(name, view), .dtype = view.dtype, .count = n, .depth = view.extents[1]};
  };
  weight.scales = per_group("scales", op.scales);
  weight.zeros = per_group("zeros", op.zeros);
  weight.offsets = per_group("offsets", op.offsets);
  weight.codebook = memory.bind_optional("codebook", op.codebook);
  weight.group = op.group == 0 ? std::max<index>(slots, 1) : std::min(op.group, std::max<index>(slots, 1));
  weight.middle = op.bits == 4 ? 8 : 128;
  return weight;
}

CodeValues::CodeValues(Core& core, Scratch& scratch, const NdTensor& codebook, Shape most)
    : core_(core),
      codebook_(scratch.alloc("codebook", {1, w4_codebook}, DType::i8)),
      places_(scratch.alloc("places of codes", most, DType::i32)) {
  Ring loaded = core.ring("codebook as it comes", Space::vector, codebook_.shape, DType::i8,
                          {1, Pipe::load_vector, Pipe::vector});  // whose flags are free again behind it
  core.copy(by_axes(loaded.acquire()).at(0, 0), codebook);
  loaded.commit();
  core.vcast(codebook_, loaded.wait());
  loaded.release();
}

void CodeValues::operator()(const Tensor& values, const Tensor& codes) {
  const Tensor places = places_.slice(0, values.rows(), 0, values.columns());
  core_.vcast(places, codes);
  const auto one_run = [](const Tensor& tile) { return tile.region().runs <= 1; };
  if (!one_run(values) || !one_run(places)) return core_.vgather(values, codebook_, places);
  const Shape row{1, values.elements()};
  core_.vshuffle(values.reshape(row), codebook_, places.reshape(row));
}

namespace {

// Words of a panel's columns side by side; next to nothing of what is not there.
TileForm panel_form(const RowSource& source, index columns) {
  if (source.count == 0) return {"of panels", Space::vector, {1, 2}, DType::f16};
  return {
      "of panels", Space::vector, {1, ceil_div(columns, source.per_word()) * panel_rows}, source.panels.first.dtype};
}

// Where whole groups start behind one that a tile begins in: at the alignment of the vector unit, in bytes or more.
index groups_of_a_granule(const Device& device) {
  return ceil_div(static_cast<index>(device.memory(Space::vector).align), panel_rows);
}

}  // namespace

// Tiles begin with the matrix unit's blocks.
bool DequantizedTiles::wide(const Device& device, const W4Weight& weight) {
  const index align = static_cast<index>(device.memory(Space::vector).align), group = weight.group;
  const index block = device.fractal_block(DType::f16);
  const bool never_cut = cut_granule % group == 0 && (group % block == 0 || block % group == 0);
  const bool aligned = group >= weight.codes.depth || group % align == 0 || never_cut;
  return !aligned || weight.offsets.count > 0 || weight.scales.dtype != DType::f16;
}

DequantizedTiles::DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, RowTile room,
                                   std::uint32_t ahead)
    : core_(core),
      weight_(weight),
      wide_(wide(core.device(), weight)),
      at_once_(wide_ ? room : tile_of_groups(core.device(), room, weight.group)),
      from_{weight.codes, weight.scales, weight.zeros_or_offsets()},
      panels_(core.ring<sources>("of panels",
                                 {panel_form(from_[codes], at_once_.depth), panel_form(from_[scales], groups_at_once()),
                                  panel_form(from_[shifts], groups_at_once())},
                                 {ahead, Pipe::load_vector, Pipe::vector})),
      w_(scratch.alloc("w", {panel_rows, at_once_.depth}, wide_ ? DType::f32 : DType::f16)),
      halves_(wide_ ? scratch.alloc("w in f16", w_.shape, DType::f16) : w_) {
  for (std::size_t i = 0; i < sources; ++i) {
    if (from_[i].count == 0) continue;
    const index columns = i == codes ? at_once_.depth : groups_at_once();
    const index words = std::max<index>(2, ceil_div(columns, from_[i].per_word()));
    turned_[i] = scratch.alloc("turned words", {panel_rows, words}, from_[i].panels.first.dtype);
  }
  if (!weight.shifts() && (!wide_ || weight.codebook.present()))
    bytes_ = scratch.alloc("codes in bytes", w_.shape, DType::i8);
  if (weight.codebook.present()) look_up_.emplace(core, scratch, weight.codebook, bytes_.shape);
}

index DequantizedTiles::groups_at_once() const {
  return at_once_.depth / weight_.group + 2 + groups_of_a_granule(core_.device());
}

// visit(first column, columns, the groups' place in their panel, first group, groups) of what is left of the group that
// the piece begins in, and of whole ones.
template <class Visit> void DequantizedTiles::for_groups(const Piece& piece, Visit&& visit) const {
  const index group = weight_.group, begun = piece.k % group;
  const index head = begun == 0 ? 0 : std::min(piece.depth, group - begun);
  if (head > 0) visit(index{0}, head, index{0}, piece.k / group, index{1});
  if (head == piece.depth) return;
  const index columns = piece.depth - head;
  visit(head, columns, head == 0 ? 0 : groups_of_a_granule(core_.device()), (piece.k + head) / group,
        ceil_div(columns, group));
}

void DequantizedTiles::load(const Piece& piece) {
  const auto to = panels_.acquire();
  const auto load = [&](std::size_t i, index place, index first, index count) {
    core_.copy(by_axes(to[i].slice(0, 1, place * panel_rows, count * panel_rows)).at(0, 0).split(0, panel_rows),
               from_[i].panels.at(0, piece.row / panel_rows).slice(0, first, count));
  };
  load(codes, 0, piece.k / from_[codes].per_word(), words_of(from_[codes], piece.depth));
  for_groups(piece, [&](index, index, index place, index first, index count) {
    load(scales, place, first, count);
    if (weight_.shifts()) load(shifts, place, first, count);
  });
  panels_.commit();
}

// Rows of channels, of the source's own type: some words of the panel, from the first column on.
Tensor DequantizedTiles::turned(const Tensor& panel, std::size_t which, index first, index words) {
  const index per_word = from_[which].per_word();
  Tensor rows = turned_[which].slice(0, panel_rows, 0, words);
  core_.vtranspose(rows, panel.slice(0, 1, first * panel_rows, words * panel_rows).reshape({words, panel_rows}));
  rows.dtype = from_[which].dtype;
  rows.shape.columns *= per_word;
  rows.pitch *= per_word;
  return rows;
}

// What codes stand for before their zero is taken and they are scaled: in w where that comes first, or is in f32.
Tensor DequantizedTiles::values(const Piece& piece, const Tensor& w, const Tensor& panel) {
  const index words = words_of(from_[codes], piece.depth);
  const Tensor all = turned(panel, codes, 0, words);
  Tensor q = all.slice(0, piece.rows, 0, piece.depth);
  const auto bytes = [&] { return bytes_.slice(0, piece.rows, 0, piece.depth); };
  if (look_up_) {
    (*look_up_)(bytes(), q);
    if (!wide_) return bytes();
    q = bytes();
  } else if (!weight_.shifts()) {
    Tensor raw = as(all, DType::i32);
    raw.shape.columns = words;
    raw.pitch /= from_[codes].per_word();
    q.dtype = turn_upper_bits(core_, raw.slice(0, piece.rows, 0, words), from_[codes].dtype);
  }
  const Tensor to = weight_.shifts() || wide_ ? w : bytes();
  core_.vcast(to, q);
  return to;
}

void DequantizedTiles::operator()(const Tensor& tile, index row, index rows, index k, index depth) {
  for_pieces(row, rows, k, depth, at_once_, [&](index r, index count, index at, index part) {
    const Piece piece{r, count, at, part};
    const index padded = round_up(part, tile.block);
    const Tensor filled = w_.slice(0, count, 0, padded), w = filled.slice(0, count, 0, part);
    load(piece);
    const auto panels = panels_.wait();
    if (padded > part) core_.vfill(filled, 0);
    const Tensor q = values(piece, w, panels[codes]);
    for_groups(piece, [&](index start, index columns, index place, index, index groups) {
      const auto part_of = [&](const Tensor& full) { return full.slice(0, count, start, columns); };
      const Tensor into = part_of(w);
      const auto with = [&](VectorOp op, const Tensor& from, std::size_t which) {
        const Tensor each = turned(panels[which], which, place, groups).slice(0, count, 0, groups);
        if (groups == 1)
          core_.vbinary(op, into, from, each);
        else
          core_.vgrouped(op, into, from, each, weight_.group);
      };
      if (weight_.zeros.count > 0) with(VectorOp::sub, into, shifts);
      with(VectorOp::mul, part_of(q), scales);
      if (weight_.offsets.count > 0) with(VectorOp::add, into, shifts);
    });
    panels_.release();
    const Tensor rounded = halves_.slice(0, count, 0, padded);
    if (wide_) core_.vcast(rounded, filled);
    core_.vpack_nz(tile.slice(r - row, count, at - k, padded), rounded);
  });
}

index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot) {
  const index block = device.fractal_block(DType::f16);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / bytes_of_slot;
  return std::min(round_up(std::max<index>(depth, 1), block),
                  round_down(std::min<index>(room, 8192), std::max<index>(block, 64)));
}

index W4Codes::bytes(const Device& device, const W4Weight& weight, index depth, std::uint32_t ahead) {
  const RowSource& codes = weight.codes;
  const index row = words_of_a_row(device, device.fractal_block(DType::f16) / codes.per_word());
  return 4 * ((index{ahead} + 1) * round_up(words_of(codes, depth) * panel_rows, row) + 2 * row) +
         bytes_of_look_up(device, weight, depth);
}

W4Codes::W4Codes(Core& core, Scratch& scratch, const W4Weight& weight, bool less_middle, index depth,
                 std::uint32_t ahead)
    : core_(core),
      codes_(weight.codes),
      less_middle_(less_middle),
      block_(core.device().fractal_block(DType::f16)),
      at_once_(depth),
      words_of_block_(block_ / codes_.per_word()),
      words_of_row_(words_of_a_row(core.device(), words_of_block_)),
      words_(core.ring("words", Space::vector, {1, round_up(words_of(codes_, depth) * panel_rows, words_of_row_)},
                       DType::i32, {ahead, Pipe::load_vector, Pipe::vector})),
      order_(scratch.alloc("order of words", {2, words_of_row_}, DType::i32)),
      permuted_(scratch.alloc("words of blocks", {1, round_up(words_of(codes_, depth) * panel_rows, words_of_row_)},
                              DType::i32)) {
  make_order();
  if (!weight.codebook.present()) return;
  const Shape most{1, looked_up_at_once(core.device(), depth)};
  values_ = scratch.alloc("values", most, DType::i8);
  look_up_.emplace(core, scratch, weight.codebook, most);
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
  for_pieces(row, rows, k, depth, {panel_rows, at_once_}, [&](index r, index count, index at, index part) {
    panel(tile.slice(r - row, count, at - k, round_up(part, block_)), r, at, part);
  });
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
  if (look_up_) return look_up(tile, permuted);
  Tensor codes = permuted;
  codes.dtype = less_middle_ ? turn_upper_bits(core_, permuted, codes_.dtype) : codes_.dtype;
  codes.layout = Layout::nz;
  codes.block = block_;
  codes.pitch = panel_rows;
  codes.shape = tile.shape;
  core_.vcast(tile, codes);
}

// Values of whole blocks lie as the tile has them, but for where the tile's blocks begin.
void W4Codes::look_up(const Tensor& tile, const Tensor& words) {
  Tensor codes = as(words, codes_.dtype);
  codes.shape.columns = panel_rows * tile.columns();
  codes.pitch = codes.shape.columns;
  for (index k = 0, slots = 0; k < tile.columns(); k += slots) {
    slots = std::min(values_.columns() / panel_rows, tile.columns() - k);
    Tensor values = values_.slice(0, 1, 0, panel_rows * slots);
    (*look_up_)(values, codes.slice(0, 1, panel_rows * k, panel_rows * slots));
    values.layout = Layout::nz;
    values.block = block_;
    values.pitch = panel_rows;
    values.shape = {tile.rows(), slots};
    core_.vcast(tile.slice(0, tile.rows(), k, slots), values);
  }
}

index W4Codes::stored_slots_in(const Device& device, const W4Weight& weight, index bytes) {
  const index block = device.fractal_block(DType::f16);
  const index order = 2 * 4 * words_of_a_row(device, block / weight.codes.per_word());
  return round_down((bytes - order - bytes_of_look_up(device, weight, weight.codes.depth)) /
                        bytes_of_stored_slot(device, weight.codes),
                    std::max<index>(block, 64));
}

TileMaker dequantized(const W4Weight& weight) {
  return [weight](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t ahead) {
    return tiles_of(std::make_shared<DequantizedTiles>(core, scratch, weight, at_once, ahead));
  };
}

TileMaker codes_as_they_are(const W4Weight& weight, bool less_middle) {
  return [weight, less_middle](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t ahead) {
    return tiles_of(std::make_shared<W4Codes>(core, scratch, weight, less_middle, at_once.depth, ahead));
  };
}

}  // namespace inlay::npu
