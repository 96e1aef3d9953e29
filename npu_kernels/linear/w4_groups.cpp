#include "npu_kernels/linear/w4_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "npu_kernels/backend/row_partition.hpp"
#include "npu_kernels/linear/w4_words.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/time/matrix_cost.hpp"

namespace inlay::npu {

namespace {

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
index bytes_of_stored_slot(const Device& device, const W4Weight& weight) {
  const index words = weight.has_upper_bits()
                          ? 2 * 4 * words_of_step(weight.bits) + WideCodes::bytes_of_word * panel_rows
                          : 3 * 4 * panel_rows;
  return words / weight.codes.per_word() + 2 * 2 * round_up(panel_rows, device.matrix.m_granule);
}

// Tiles (MakeTile) of codes, of codes less their middle, or of values of the codebook, as the matrix unit's floats,
// which hold them exactly. The order of the words is that of their fractal blocks but for a permutation within each:
//
//   words of a block   w0 of n0 .. n15 | w1 of n0 .. n15 | ..      ->      w0 w1 .. of n0 | w0 w1 .. of n1 | ..
//
//   load_vector  words    vector  permuted, upper bit of each code turned, unpacked    the matrix unit, or store
//                                 permuted, looked up, some blocks at once
//                                 permuted, joined to bytes (w4_words.hpp), less their middle
class W4Codes {
 public:
  // Up to `depth` slots at once; `ahead` loads are on their way.
  W4Codes(Core& core, Scratch& scratch, const W4Weight& weight, bool less_middle, index depth, std::uint32_t ahead)
      : core_(core),
        codes_(weight.codes),
        less_middle_(less_middle),
        middle_(weight.middle),
        block_(core.device().fractal_block(DType::f16)),
        at_once_(depth),
        words_of_block_(block_ / codes_.per_word()),
        words_of_step_(words_of_step(weight.bits)),
        words_of_row_(row_of(core.device(), weight)),
        words_(core.ring("words", Space::vector, {1, loaded_words(core.device(), weight, depth)}, DType::i32,
                         {ahead, Pipe::load_vector, Pipe::vector})) {
    if (weight.has_upper_bits()) {
      wide_codes_.emplace(core, scratch, weight.bits, words_of_block_, words_of_blocks(depth));
      return;
    }
    order_ = order_of_words(core, scratch, words_of_block_, words_of_row_);
    permuted_ = scratch.alloc("words of blocks", {1, loaded_words(core.device(), weight, depth)}, DType::i32);
    if (!weight.codebook.present()) return;
    const Shape most{1, looked_up_at_once(core.device(), depth)};
    values_ = scratch.alloc("values", most, DType::i8);
    look_up_.emplace(core, scratch, weight.codebook, most);
  }
  // Of the vector unit's memory.
  static index bytes(const Device& device, const W4Weight& weight, index depth, std::uint32_t ahead) {
    const index loaded = 4 * loaded_words(device, weight, depth);
    const index words = round_up(depth, device.fractal_block(DType::f16)) / weight.codes.per_word() * panel_rows;
    return ahead * loaded + bytes_of_places(device, weight) +
           (weight.has_upper_bits() ? words * WideCodes::bytes_of_word : loaded) +
           bytes_of_look_up(device, weight, depth);
  }
  // How many slots so many bytes of it hold where the tiles are stored.
  static index stored_slots_in(const Device& device, const W4Weight& weight, index bytes) {
    const index places = bytes_of_places(device, weight);
    return round_down(
        (bytes - places - bytes_of_look_up(device, weight, weight.codes.depth)) / bytes_of_stored_slot(device, weight),
        std::max<index>(device.fractal_block(DType::f16), 64));
  }
  // Channels [row, row + rows) of a panel's first on, slots [k, k + depth) of a block's first on, filled up to blocks.
  void operator()(const Tensor& tile, index row, index rows, index k, index depth) {
    for_pieces(row, rows, k, depth, {panel_rows, at_once_}, [&](index r, index count, index at, index part) {
      panel(tile.slice(r - row, count, at - k, round_up(part, block_)), r, at, part);
    });
  }

 private:
  // Those of less than a row of the permutation are filled up; WideCodes fills up what it makes of them.
  static index loaded_words(const Device& device, const W4Weight& weight, index depth) {
    const index words = words_of(weight.codes, depth) * words_of_step(weight.bits);
    return weight.has_upper_bits() ? words : round_up(words, row_of(device, weight));
  }
  static index row_of(const Device& device, const W4Weight& weight) {
    return words_of_a_row(device, device.fractal_block(DType::f16) / weight.codes.per_word(), weight.bits);
  }
  static index bytes_of_places(const Device& device, const W4Weight& weight) {
    const index row = row_of(device, weight);
    return weight.has_upper_bits() ? WideCodes::bytes_besides(row) : 2 * 4 * row;
  }
  index words_of_blocks(index depth) const { return round_up(depth, block_) / codes_.per_word() * panel_rows; }

  void panel(const Tensor& tile, index row, index k, index depth) {
    const index steps = words_of(codes_, depth), count = steps * words_of_step_;
    core_.copy(by_axes(words_.acquire().slice(0, 1, 0, count)).at(0, 0).split(0, words_of_step_),
               codes_.panels.at(0, row / panel_rows).slice(0, k / codes_.per_word(), steps));
    words_.commit();
    if (wide_codes_) {
      const Tensor codes = (*wide_codes_)(words_.wait().slice(0, 1, 0, count), words_of_blocks(depth));
      words_.release();
      return floats(tile, codes, less_middle_ ? middle_ : 0);
    }
    const index padded = round_up(count, words_of_row_);
    const Tensor words = words_.wait().slice(0, 1, 0, padded), permuted = permuted_.slice(0, 1, 0, padded);
    if (padded > count) core_.vfill(words.slice(0, 1, count, padded - count), 0);
    const Shape rows_of_blocks{padded / words_of_row_, words_of_row_};
    core_.vshuffle(permuted.reshape(rows_of_blocks), words.reshape(rows_of_blocks), order_);
    words_.release();
    if (look_up_) return look_up(tile, permuted);
    floats(tile, as(permuted, less_middle_ ? turn_upper_bits(core_, permuted, codes_.dtype) : codes_.dtype));
  }

  // Codes that lie in the order of the tile's blocks.
  void floats(const Tensor& tile, const Tensor& codes, float less = 0) {
    const Tensor blocks = in_blocks(codes, block_, tile.shape);
    if (less != 0)
      core_.vscalar(VectorOp::sub, tile, blocks, less);
    else
      core_.vcast(tile, blocks);
  }

  // Values of whole blocks lie as the tile has them, but for where the tile's blocks begin.
  void look_up(const Tensor& tile, const Tensor& words) {
    Tensor codes = as(words, codes_.dtype);
    codes.shape.columns = panel_rows * tile.columns();
    codes.pitch = codes.shape.columns;
    for (index k = 0, slots = 0; k < tile.columns(); k += slots) {
      slots = std::min(values_.columns() / panel_rows, tile.columns() - k);
      const Tensor values = values_.slice(0, 1, 0, panel_rows * slots);
      (*look_up_)(values, codes.slice(0, 1, panel_rows * k, panel_rows * slots));
      floats(tile.slice(0, tile.rows(), k, slots), values);
    }
  }

  Core& core_;
  RowSource codes_;
  bool less_middle_;
  float middle_;
  index block_, at_once_, words_of_block_, words_of_step_, words_of_row_;  // of a row of the permutation
  Ring words_;
  Tensor order_, permuted_;
  std::optional<WideCodes> wide_codes_;
  std::optional<CodeValues> look_up_;
  Tensor values_;
};

TileMaker codes_as_they_are(const W4Weight& weight, bool less_middle) {
  return [weight, less_middle](Core& core, Scratch& scratch, RowTile at_once, std::uint32_t ahead) {
    return tiles_of(std::make_shared<W4Codes>(core, scratch, weight, less_middle, at_once.depth, ahead));
  };
}

// The spread whose products and drains take the unit least: of few rows as many groups as make up its granule.
index cheapest_spread(const Device& device, const W4Groups& op) {
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const Path* way = drain_path(device);
  const index rows = op.x.count * op.parts, n = op.weight.codes.count, sum_bytes = byte_size(DType::f32, 1);
  // Square tiles of half the accumulators.
  const auto sums = static_cast<double>(device.memory(Space::accumulator).bytes) / 2 / 4;
  const index side = round_down(static_cast<index>(std::sqrt(sums)), rate->n);
  const bool kept = device.feeds_are_views() && device.same_memory(Space::staging, Space::vector);
  const index most = static_cast<index>(device.memory(kept ? Space::staging : Space::vector).bytes) / 4;
  index best = op.sharing;
  double least = 0;
  for (index spread = op.sharing; spread < 2 * op.groups(); spread *= 2) {
    const index high = rows * spread, products = ceil_div(op.groups(), spread);
    if (spread > op.sharing && 2 * high * (kept ? op.x.depth : 64) > most) break;
    const auto bytes = static_cast<double>(high * n * sum_bytes);
    const auto drained = static_cast<double>(ceil_div(high, side) * ceil_div(n, side));
    const double drains = drained * (way->latency + device.matrix.head) + bytes / way->bytes_per_cycle;
    const double work =
        matrix_cycles(device.matrix, *rate, static_cast<std::uint64_t>(high), static_cast<std::uint64_t>(n),
                      static_cast<std::uint64_t>(std::min(spread * op.group, op.x.depth)), false);
    const double cycles = static_cast<double>(products) * (work + drains);
    if (spread > op.sharing && cycles >= least) continue;
    best = spread;
    least = cycles;
  }
  return best;
}

// Of codes that are made as they are used.
index codes_at_once(const Device& device, const W4Groups& op) {
  return w4_slots_at_once(device, op.plan.tiles.chunk_k, 2 * panels_ahead * 4 * panel_rows / 8 * 4);
}

// Where staging is the vector unit's memory: fewer rows at once, then shorter chunks, or fewer columns where rows stay,
// until the epilogue fits beside them.
void make_room_for_epilogue(const Device& device, W4Groups& op) {
  if (!stages_for_vector(device)) return;
  ProductTiles& t = op.plan.tiles;
  const auto all = static_cast<index>(device.memory(Space::vector).bytes);
  const MatrixRate* rate = device.rate(DType::f16, DType::f32);
  const index block = std::max<index>(device.fractal_block(DType::f16), rate->k);
  const auto fits = [&] {
    const index codes = op.codes.parts.front().blocked()
                            ? 0
                            : W4Codes::bytes(device, op.weight, codes_at_once(device, op), panels_ahead);
    return staged_bytes(device, op.plan.products, t) + w4_group_epilogue_bytes(device, op) + codes <= all - all / 64;
  };
  while (!fits() && t.vector_m > op.plan.products.row_unit) t.vector_m -= op.plan.products.row_unit;
  while (!fits() && !t.keeps && t.chunk_k > block) t.chunk_k = round_up(t.chunk_k / 2, block);
  t.feed_k = std::min(t.feed_k, t.chunk_k);
  t.step_k = std::min(t.step_k, t.chunk_k);
  const index columns = column_unit(*rate);
  while (!fits() && t.keeps && t.block_n == t.sum_n && t.sum_n > columns) t.block_n = t.sum_n -= columns;
}

}  // namespace

W4Groups w4_groups(GlobalMemory& memory, const RowSource& x, const W4Weight& weight, const LinearResult& result,
                   bool bytes) {
  const Device& device = memory.device();
  const index block = device.fractal_block(DType::f16), n = weight.codes.count, m = x.count;
  W4Groups op{.x = x, .weight = weight, .bytes = bytes, .group = weight.group, .result = result};
  if (bytes) {
    op.group = weight.scales.depth <= 1 ? longest_segment : std::gcd(weight.group, longest_segment);
    op.floats = x;
    op.x.dtype = DType::f16;
    op.x.rows = by_axes(memory.workspace("bytes of x", {m, x.depth}, DType::f16));
  }
  op.halves.source = op.x;
  op.parts = op.x.dtype == DType::f32 ? 2 : 1;
  if (op.groups() > 1) op.sharing = block / std::gcd(op.group, block);
  op.spread = cheapest_spread(device, op);
  op.rows = blocked_operand(memory, "x", m * op.parts, x.depth, DType::f16);
  for (index part = 0; part < op.parts; ++part) {
    Operand rows = op.rows;
    rows.rows = m;
    rows.blocks = op.rows.blocks.split(1, op.parts).at(2, part);
    op.halves.parts.push_back(rows);
  }
  if (op.x.dtype != DType::f16) op.halves.power = memory.workspace("powers of x", {1, m}, DType::f32);
  if (op.groups() > 0) op.result.row_scale = op.halves.powers();
  op.result.powers = true;
  if (op.shifts()) op.sums = memory.workspace("sums of x", {std::max<index>(1, op.groups()), m}, DType::f32);

  if (op.bytes) op.steps = memory.workspace("steps of x", {std::max<index>(1, op.groups()), m}, DType::f32);

  op.left = op.rows;
  op.left.rows = m * op.spread * op.parts;
  op.plan.products = {.left = {op.left},
                      .right = {{.rows = n, .depth = x.depth, .dtype = DType::f16}},
                      .sum = DType::f32,
                      .segments = {},
                      .row_unit = op.spread * op.parts,
                      .makes_room = true};
  for (index k = 0; k < std::max<index>(1, x.depth); k += op.slots_of_product())
    op.plan.products.segments.push_back({k, std::min(op.slots_of_product(), x.depth - k)});
  op.plan.products.source_bits = weight.bits;
  op.codes = laid_out(memory, "codes", codes_as_they_are(weight, op.less_middle()), op.plan.products);
  op.plan.tiles = product_tiles(device, memory.cores(), op.plan.products, op.codes.as_used);
  make_room_for_epilogue(device, op);
  op.codes.depth_at_once = codes_at_once(device, op);
  if (op.codes.stored()) {
    const index room = static_cast<index>(device.memory(Space::vector).bytes) - w4_group_epilogue_bytes(device, op);
    op.plan.tiles.stored_k = std::min(op.plan.tiles.stored_k, W4Codes::stored_slots_in(device, weight, room));
  }
  if (op.spread > 1 && !op.codes.parts.front().blocked() && op.plan.tiles.block_m >= op.left.rows)
    op.left.blocks = {};
  else if (op.spread > 1)
    op.left = blocked_operand(memory, "spread rows of x", op.left.rows, x.depth, DType::f16);
  op.plan.products.left = {op.left};
  op.plan.accumulator = accumulator_workspace(memory, op.plan.products, op.plan.tiles);
  return op;
}

void make_w4_operands(Core& core, const W4Groups& op) {
  const bool spread = op.spread > 1 && op.left.blocked();
  if (op.bytes) {
    make_bytes(core, op);
    core.sync_all();
  }
  prepare(core, op.halves);
  prepare(core, op.codes);
  const bool sums = op.shifts() && !op.bytes;
  if (spread || sums) core.sync_all();
  if (sums) make_sums(core, op);
  if (spread) store_spread_rows(core, op);
}

void multiply_w4_groups(Core& core, const W4Groups& op) {
  if (op.x.depth > 0) make_w4_operands(core, op);
  Scratch scratch(core);
  const Consumer epilogue = w4_group_epilogue(core, scratch, op);
  const MakeLeft rows = op.left.blocked() ? MakeLeft() : spread_rows(core, scratch, op);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  multiply(core, scratch, op.codes, op.plan, epilogue, op.x.depth > 0, rows);
}

}  // namespace inlay::npu
