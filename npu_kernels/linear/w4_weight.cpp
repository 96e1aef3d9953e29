#include "npu_kernels/linear/w4_weight.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "npu_kernels/linear/w4_words.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Columns at once: whole blocks, and of groups that are cut nowhere else than at a tile's start.
RowTile tile_of_groups(const Device& device, RowTile room, index group) {
  const index whole = round_down(room.depth, std::min(group, room.depth));
  const bool in_blocks = whole > 0 && whole % device.fractal_block(DType::f16) == 0;
  return {panel_rows, in_blocks ? whole : room.depth};
}

}  // namespace

W4Weight w4_weight(GlobalMemory& memory, const LinearW4a16<Host>& op) {
  const index n = op.y.extents[1], slots = op.slots();
  const ConstView<3> words{
      op.codes.data, DType::i32, {op.codes.extents[0], op.codes.extents[1], words_of_step(op.bits)}};
  W4Weight weight{.codes = {.panels = memory.bind("codes", words),
                            .dtype = op.bits == 8 ? DType::u8 : DType::u4,
                            .count = n,
                            .depth = slots}};
  const auto per_group = [&](const char* name, const ConstView<3>& view) {
    if (!view.present()) return RowSource{};
    return RowSource{.panels = memory.bind(name, view), .dtype = view.dtype, .count = n, .depth = view.extents[1]};
  };
  weight.scales = per_group("scales", op.scales);
  weight.zeros = per_group("zeros", op.zeros);
  weight.offsets = per_group("offsets", op.offsets);
  weight.super_scales = per_group("super_scales", op.super_scales);
  weight.super_offsets = per_group("super_offsets", op.super_offsets);
  weight.codebook = memory.bind_optional("codebook", op.codebook);
  weight.group = op.group == 0 ? std::max<index>(slots, 1) : std::min(op.group, std::max<index>(slots, 1));
  if (weight.in_units()) weight.groups_of_unit = w4_super_block / op.group;
  weight.bits = op.bits;
  weight.middle = static_cast<float>(1 << (op.bits - 1));
  return weight;
}

DType turn_upper_bits(Core& core, const Tensor& words, DType codes) {
  const bool four = codes == DType::u4;
  core.vscalar(VectorOp::bit_xor, words, words, static_cast<std::int32_t>(four ? 0x88888888u : 0x80808080u));
  return four ? DType::i4 : DType::i8;
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
  const index words = ceil_div(columns, source.per_word()) * source.panels.extent(2);
  return {"of panels", Space::vector, {1, words}, source.panels.first.dtype};
}

// Where whole groups start behind one that a tile begins in: at the alignment of the vector unit, in bytes or more.
index groups_of_a_granule(const Device& device) {
  return ceil_div(static_cast<index>(device.memory(Space::vector).align), panel_rows);
}

// Tiles begin with the matrix unit's blocks.
bool is_wide(const Device& device, const W4Weight& weight) {
  const index align = static_cast<index>(device.memory(Space::vector).align), group = weight.group;
  const index block = device.fractal_block(DType::f16);
  const bool never_cut = cut_granule % group == 0 && (group % block == 0 || block % group == 0);
  const bool aligned = group >= weight.codes.depth || group % align == 0 || never_cut;
  return !aligned || weight.offsets.count > 0 || weight.scales.dtype != DType::f16;
}

// Columns at once that end with super-blocks, wherever whole ones begin.
index columns_of_units(index room) {
  return room >= w4_super_block ? round_down(room, w4_super_block)
                                : static_cast<index>(std::bit_floor(static_cast<std::uint64_t>(room)));
}

// Tiles of w (MakeTile), rounded to f16 once. (q - zero) scale and codebook[q] scale need no more than f16 where scales
// have it: a code less its zero is exact. Offsets, wider scales, and groups that may start where no operand of f16 can,
// are worked on in f32.
class DequantizedTiles {
 public:
  DequantizedTiles(Core& core, Scratch& scratch, const W4Weight& weight, RowTile room, std::uint32_t ahead)
      : core_(core),
        weight_(weight),
        wide_(is_wide(core.device(), weight)),
        at_once_(weight.in_units() ? RowTile{panel_rows, columns_of_units(room.depth)}
                 : wide_           ? room
                                   : tile_of_groups(core.device(), room, weight.group)),
        from_{weight.codes, weight.scales, weight.zeros_or_offsets(), weight.super_scales, weight.super_offsets},
        panels_(core.ring<sources>(
            "of panels",
            {panel_form(from_[codes], at_once_.depth), panel_form(from_[scales], groups_at_once()),
             panel_form(from_[shifts], groups_at_once()), panel_form(from_[scales + units], units_at_once()),
             panel_form(from_[shifts + units], units_at_once())},
            {ahead, Pipe::load_vector, Pipe::vector})),
        w_(scratch.alloc("w", {panel_rows, at_once_.depth}, wide_ ? DType::f32 : DType::f16)),
        halves_(wide_ ? scratch.alloc("w in f16", w_.shape, DType::f16) : w_) {
    for (std::size_t i = 0; i < sources; ++i) {
      if (from_[i].count == 0 || (i == codes && weight.has_upper_bits())) continue;
      const index columns = i == codes ? at_once_.depth : i > shifts ? units_at_once() : groups_at_once();
      const index words = std::max<index>(2, ceil_div(columns, from_[i].per_word()));
      turned_[i] = scratch.alloc("turned words", {panel_rows, words}, from_[i].panels.first.dtype);
    }
    for (const std::size_t i : {scales, shifts})
      if (from_[i + units].count > 0)
        products_[i] = scratch.alloc("in units", {panel_rows, std::max<index>(2, groups_at_once())}, DType::f32);
    if (weight.has_upper_bits()) {
      const index block = core.device().fractal_block(DType::f16) / from_[codes].per_word();
      wide_codes_.emplace(core, scratch, weight.bits, block, words_of(from_[codes], at_once_.depth) * panel_rows);
    }
    if (weight.has_upper_bits() || (!weight.shifts() && (!wide_ || weight.codebook.present())))
      bytes_ = scratch.alloc("codes in bytes", w_.shape, DType::i8);
    if (weight.codebook.present()) look_up_.emplace(core, scratch, weight.codebook, bytes_.shape);
  }

  void operator()(const Tensor& tile, index row, index rows, index k, index depth) {
    // Units change where super-blocks begin: a piece begins there, or lies within one.
    const index begun = weight_.in_units() ? k % w4_super_block : 0;
    const index head = begun == 0 ? 0 : std::min(depth, w4_super_block - begun);
    const auto make = [&](index r, index count, index at, index part) { piece_of(tile, row, k, {r, count, at, part}); };
    for_pieces(row, rows, k, head, at_once_, make);
    for_pieces(row, rows, k + head, depth - head, at_once_, make);
  }

 private:
  struct Piece {  // channels and slots of a tile that are made at once
    index row, rows, k, depth;
  };

  // Of a tile that begins at `row` and `k`.
  void piece_of(const Tensor& tile, index row, index k, const Piece& piece) {
    const index count = piece.rows, part = piece.depth;
    const index padded = round_up(part, tile.block);
    const Tensor filled = w_.slice(0, count, 0, padded), w = filled.slice(0, count, 0, part);
    load(piece);
    const auto panels = panels_.wait();
    if (padded > part) core_.vfill(filled, 0);
    const Tensor q = values(piece, w, panels[codes]);
    for_groups(piece, [&](index start, index columns, index place, index first, index groups) {
      const auto part_of = [&](const Tensor& full) { return full.slice(0, count, start, columns); };
      const Tensor into = part_of(w);
      const auto with = [&](VectorOp op, const Tensor& from, std::size_t which) {
        Tensor each = turned(panels[which], which, place, groups).slice(0, count, 0, groups);
        if (from_[which + units].count > 0) each = product(each, panels[which + units], which, first);
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
    core_.vpack_nz(tile.slice(piece.row - row, count, piece.k - k, padded), rounded);
  }

  index units_at_once() const { return ceil_div(at_once_.depth, w4_super_block); }
  index groups_at_once() const { return at_once_.depth / weight_.group + 2 + groups_of_a_granule(core_.device()); }

  // visit(first column, columns, the groups' place in their panel, first group, groups) of what is left of the group
  // that the piece begins in, and of whole ones.
  template <class Visit> void for_groups(const Piece& piece, Visit&& visit) const {
    const index group = weight_.group, begun = piece.k % group;
    const index head = begun == 0 ? 0 : std::min(piece.depth, group - begun);
    if (head > 0) visit(index{0}, head, index{0}, piece.k / group, index{1});
    if (head == piece.depth) return;
    const index columns = piece.depth - head;
    visit(head, columns, head == 0 ? 0 : groups_of_a_granule(core_.device()), (piece.k + head) / group,
          ceil_div(columns, group));
  }

  void load(const Piece& piece) {
    const auto to = panels_.acquire();
    const auto load = [&](std::size_t i, index place, index first, index count) {
      const index words = from_[i].panels.extent(2);
      core_.copy(by_axes(to[i].slice(0, 1, place * words, count * words)).at(0, 0).split(0, words),
                 from_[i].panels.at(0, piece.row / panel_rows).slice(0, first, count));
    };
    load(codes, 0, piece.k / from_[codes].per_word(), words_of(from_[codes], piece.depth));
    for_groups(piece, [&](index, index, index place, index first, index count) {
      load(scales, place, first, count);
      if (weight_.shifts()) load(shifts, place, first, count);
    });
    for (const std::size_t i : {scales + units, shifts + units})
      if (from_[i].count > 0) load(i, 0, piece.k / w4_super_block, ceil_div(piece.depth, w4_super_block));
    panels_.commit();
  }

  // Rows of channels, of the source's own type: some words of the panel, from the first column on.
  Tensor turned(const Tensor& panel, std::size_t which, index first, index words) {
    const Tensor some = panel.slice(0, 1, first * panel_rows, words * panel_rows);
    const Tensor rows = turned_[which].slice(0, panel_rows, 0, words);
    core_.vtranspose(rows, some.reshape({words, panel_rows}));
    return elements_of(rows, from_[which].dtype);
  }

  // Rows of groups, from group `first` on, times their units: those of one super-block, or of whole ones.
  Tensor product(const Tensor& counts, const Tensor& panel, std::size_t which, index first) {
    const index rows = counts.rows(), groups = counts.columns(), of_unit = weight_.groups_of_unit;
    const index blocks = ceil_div(first % of_unit + groups, of_unit);
    const Tensor each = turned(panel, which + units, 0, blocks).slice(0, rows, 0, blocks);
    const Tensor all = products_[which].slice(0, rows, 0, groups);
    core_.vcast(all, counts);
    if (blocks == 1)
      core_.vbinary(VectorOp::mul, all, all, each);
    else
      core_.vgrouped(VectorOp::mul, all, all, each, of_unit);
    return all;
  }

  // What codes stand for before their zero is taken and they are scaled: in w where that comes first, or is in f32.
  Tensor values(const Piece& piece, const Tensor& w, const Tensor& panel) {
    const index words = words_of(from_[codes], piece.depth);
    if (wide_codes_) return wide_values(piece, w, panel.slice(0, 1, 0, words * words_of_step(weight_.bits)));
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

  Tensor wide_values(const Piece& piece, const Tensor& w, const Tensor& steps) {
    const index block = core_.device().fractal_block(DType::f16), padded = round_up(piece.depth, block);
    const Tensor all = (*wide_codes_)(steps, padded / from_[codes].per_word() * panel_rows);
    const Tensor rows = as(bytes_.slice(0, piece.rows, 0, padded), DType::u8);
    core_.vunpack_nz(rows, in_blocks(all, block, rows.shape));
    const Tensor q = rows.slice(0, piece.rows, 0, piece.depth);
    if (weight_.shifts())
      core_.vcast(w, q);
    else
      core_.vscalar(VectorOp::sub, w, q, weight_.middle);
    return w;
  }

  static constexpr std::size_t codes = 0, scales = 1, shifts = 2, sources = 5;
  static constexpr std::size_t units = 2;  // of scales and shifts lie so much behind them
  Core& core_;
  W4Weight weight_;
  bool wide_;
  RowTile at_once_;
  std::array<RowSource, sources> from_;
  TupleRing<sources> panels_;  // of what a piece is made from, with one pair of flags
  std::array<Tensor, sources> turned_;
  std::array<Tensor, 3> products_;  // of scales and shifts, with their units
  std::optional<CodeValues> look_up_;
  std::optional<WideCodes> wide_codes_;
  Tensor bytes_, w_, halves_;  // halves_: of w_, where that is f32
};

}  // namespace

index w4_slots_at_once(const Device& device, index depth, index bytes_of_slot) {
  const index block = device.fractal_block(DType::f16);
  const index room = static_cast<index>(device.memory(Space::vector).bytes) / bytes_of_slot;
  return std::min(round_up(std::max<index>(depth, 1), block),
                  round_down(std::min<index>(room, 8192), std::max<index>(block, 64)));
}

index dequantized_bytes(const Device& device, const W4Weight& weight) {
  const bool wide = is_wide(device, weight);
  index bytes = (wide ? 8 : 4) + (weight.has_upper_bits() ? 4 : 0);
  if (weight.codebook.present()) bytes += CodeValues::bytes_of_code + (wide ? 1 : 0);
  return bytes;
}
double dequantized_passes(const Device& device, const W4Weight& weight) {
  return (is_wide(device, weight) ? 12 : 6) + (weight.has_upper_bits() ? 6 : 0);
}

TileMaker dequantized(const W4Weight& weight) {
  return [weight](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t ahead) {
    return tiles_of(std::make_shared<DequantizedTiles>(core, scratch, weight, at_once, ahead));
  };
}

}  // namespace inlay::npu
