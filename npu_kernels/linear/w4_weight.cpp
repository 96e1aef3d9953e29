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

// Columns [k, k + depth) in two pieces at most, visit(first, count): what is left of k's group, and whole groups.
template <class Visit> void for_groups(index k, index depth, index group, Visit&& visit) {
  const index head = k % group == 0 ? 0 : std::min(depth, group - k % group);
  if (head > 0) visit(index{0}, head);
  if (head < depth) visit(head, depth - head);
}

// to = from (op) what each group has; k is the first column of such a piece.
void combine(Core& core, VectorOp op, const Tensor& to, const Tensor& from, RowReader& reader, index row, index k,
             index group) {
  const index groups = ceil_div(k % group + to.columns(), group);
  const Tensor of_groups = reader.read(row, to.rows(), k / group, groups);
  if (groups == 1)
    core.vbinary(op, to, from, of_groups);
  else
    core.vgrouped(op, to, from, of_groups, group);
  reader.release();
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

W4Reader::W4Reader(Core& core, Scratch& scratch, const W4Weight& weight, index depth)
    : core_(core),
      weight_(weight),
      codes_(core, scratch, weight.codes, panel_rows, depth),
      scales_(core, scratch, weight.scales, panel_rows, depth / weight.group + 2),
      w_(scratch.alloc("w", {panel_rows, std::max<index>(2, depth)}, DType::f32)) {
  if (weight.shifts()) others_.emplace(core, scratch, weight.zeros_or_offsets(), panel_rows, depth / weight.group + 2);
  if (!weight.codebook.present()) return;
  values_ = scratch.alloc("values", w_.shape, DType::i8);
  look_up_.emplace(core, scratch, weight.codebook, w_.shape);
}

Tensor W4Reader::read(index row, index rows, index k, index depth) {
  const Tensor all = w_.slice(0, rows, 0, depth);
  Tensor codes = codes_.read(row, rows, k, depth);
  if (look_up_) {
    const Tensor values = values_.slice(0, rows, 0, depth);
    (*look_up_)(values, codes);
    codes = values;
  }
  core_.vcast(all, codes);
  codes_.release();
  const index group = weight_.group;
  if (!weight_.shifts() && !look_up_) core_.vscalar(VectorOp::sub, all, all, weight_.middle);
  for_groups(k, depth, group, [&](index first, index count) {
    const Tensor w = all.slice(0, rows, first, count);
    if (weight_.zeros.count > 0) combine(core_, VectorOp::sub, w, w, *others_, row, k + first, group);
    combine(core_, VectorOp::mul, w, w, scales_, row, k + first, group);
    if (weight_.offsets.count > 0) combine(core_, VectorOp::add, w, w, *others_, row, k + first, group);
  });
  return all;
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

bool DequantizedTiles::takes(const Device& device, const W4Weight& weight) {
  const index align = static_cast<index>(device.memory(Space::vector).align), group = weight.group;
  const bool never_cut = cut_granule % group == 0 && group % device.fractal_block(DType::f16) == 0;
  const bool aligned = group >= weight.codes.depth || group % align == 0 || never_cut;
  return aligned && weight.offsets.count == 0 && weight.scales.dtype == DType::f16;
}

DequantizedTiles::DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, RowTile room,
                                   std::uint32_t ahead)
    : core_(core),
      weight_(weight),
      at_once_(tile_of_groups(core.device(), room, weight.group)),
      from_{weight.codes, weight.scales, weight.zeros},
      panels_(core.ring<sources>("of panels",
                                 {panel_form(weight.codes, at_once_.depth), panel_form(weight.scales, groups_at_once()),
                                  panel_form(weight.zeros, groups_at_once())},
                                 {ahead, Pipe::load_vector, Pipe::vector})),
      halves_(scratch.alloc("w", {panel_rows, at_once_.depth}, DType::f16)) {
  for (std::size_t i = 0; i < sources; ++i) {
    if (from_[i].count == 0) continue;
    const index columns = i == codes ? at_once_.depth : groups_at_once();
    const index words = std::max<index>(2, ceil_div(columns, from_[i].per_word()));
    turned_[i] = scratch.alloc("turned words", {panel_rows, words}, from_[i].panels.first.dtype);
  }
  if (!weight.shifts()) bytes_ = scratch.alloc("codes in bytes", {panel_rows, at_once_.depth}, DType::i8);
  if (weight.codebook.present()) look_up_.emplace(core, scratch, weight.codebook, bytes_.shape);
}

index DequantizedTiles::groups_at_once() const {
  return at_once_.depth / weight_.group + 2 + groups_of_a_granule(core_.device());
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

void DequantizedTiles::operator()(const Tensor& tile, index row, index rows, index k, index depth) {
  const index group = weight_.group;
  for_pieces(row, rows, k, depth, at_once_, [&](index r, index count, index at, index part) {
    const index padded = round_up(part, tile.block), words = ceil_div(part, from_[codes].per_word());
    const auto to = panels_.acquire();
    const auto load = [&](std::size_t i, index place, index first, index count_of) {
      core_.copy(by_axes(to[i].slice(0, 1, place * panel_rows, count_of * panel_rows)).at(0, 0).split(0, panel_rows),
                 from_[i].panels.at(0, r / panel_rows).slice(0, first, count_of));
    };
    struct Groups {
      index place, count;
    };
    const auto groups_of = [&](index start, index columns) {
      return Groups{start == 0 ? 0 : groups_of_a_granule(core_.device()),
                    ceil_div((at + start) % group + columns, group)};
    };
    load(codes, 0, at / from_[codes].per_word(), words);
    for_groups(at, part, group, [&](index start, index columns) {
      const Groups of = groups_of(start, columns);
      load(scales, of.place, (at + start) / group, of.count);
      if (weight_.shifts()) load(zeros, of.place, (at + start) / group, of.count);
    });
    panels_.commit();
    const auto panels = panels_.wait();
    const Tensor codes_of = turned(panels[codes], codes, 0, words);

    const Tensor w = halves_.slice(0, count, 0, padded), less_zero = w.slice(0, count, 0, part);
    const Tensor bytes = weight_.shifts() ? less_zero : bytes_.slice(0, count, 0, part);
    Tensor q = codes_of.slice(0, count, 0, part);
    if (padded > part) core_.vfill(w, 0);
    if (look_up_) {
      (*look_up_)(bytes, q);
    } else {
      if (!weight_.shifts()) {
        Tensor raw = as(codes_of, DType::i32);
        raw.shape.columns = words;
        raw.pitch /= from_[codes].per_word();
        q.dtype = turn_upper_bits(core_, raw.slice(0, count, 0, words), from_[codes].dtype);
      }
      core_.vcast(bytes, q);
    }
    for_groups(at, part, group, [&](index start, index columns) {
      const Tensor into = w.slice(0, count, start, columns);
      const Groups of = groups_of(start, columns);
      const auto with = [&](VectorOp op, const Tensor& from, std::size_t which) {
        const Tensor each = turned(panels[which], which, of.place, of.count).slice(0, count, 0, of.count);
        if (of.count == 1)
          core_.vbinary(op, into, from, each);
        else
          core_.vgrouped(op, into, from, each, group);
      };
      if (weight_.shifts()) with(VectorOp::sub, into, zeros);
      with(VectorOp::mul, bytes.slice(0, count, start, columns), scales);
    });
    panels_.release();
    core_.vpack_nz(tile.slice(r - row, count, at - k, padded), w);
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
