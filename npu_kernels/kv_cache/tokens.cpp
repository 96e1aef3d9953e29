#include "npu_kernels/kv_cache/tokens.hpp"

#include <algorithm>
#include <utility>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu::kv {

namespace {

// A column whose rows start at granules each, so that any of them can be stored by itself.
Tensor column(const Tensor& full, index rows) { return full.slice(0, rows, 0, 1); }

}  // namespace

TileSize tile_size(const Device& device, const Pool& pool, index tokens, std::uint64_t bytes) {
  const DType from = pool.source.first.dtype, to = pool.cache.first.dtype;
  const auto granule = static_cast<index>(device.memory(Space::vector).align);
  const auto memory = static_cast<index>(std::min<std::uint64_t>(bytes, 512 * 1024));
  const index heads = pool.cache.extent(1), slots = pool.cache.extent(3);
  TileSize size;
  index columns = pool.piece(), budget = memory;
  if (pool.turned()) {  // a row for each dim, a granule for tokens: twice
    const index side_by_side = pool.cache.stride(3) == 1 ? std::min(slots, tokens) : 1;
    size.run = std::clamp<index>(side_by_side, 1, granule / byte_size(to, 1));
    columns = std::clamp<index>(memory / 2 / (2 * granule), 1, columns);
    budget -= 2 * granule * columns;
  } else {
    size.run = std::max<index>(1, std::min(slots, tokens));
  }
  // Of a piece: two slots each way, and for int8 two rows in f32 and four columns.
  const auto row_bytes = [&](index n) {
    const auto pitch = [&](DType type) { return round_up(byte_size(type, std::max<index>(2, n)), granule); };
    const index kept = pool.direct() ? 0 : pool.turned() ? pitch(to) : 2 * pitch(to);
    return 2 * pitch(from) + kept + (pool.quantized() ? 2 * pitch(DType::f32) + 4 * granule : 0);
  };
  while (columns > 2 && row_bytes(columns) > budget) columns = ceil_div(columns, 2);
  size.columns = std::max<index>(1, columns);
  index rows = std::max<index>(1, budget / row_bytes(size.columns));
  if (size.columns == pool.piece()) size.pieces = std::clamp<index>(rows, 1, std::max<index>(1, pool.pieces()));
  rows = std::max<index>(1, rows / size.pieces);
  size.heads = std::clamp<index>(heads, 1, rows);
  size.tokens = std::clamp<index>(tokens, 1, rows / size.heads);
  size.run = std::min(size.run, size.tokens);
  return size;
}

TokenWriter::TokenWriter(Core& core, const Pool& pool, const TileSize& size) : core_(core), pool_(pool), size_(size) {
  const index rows = size.tokens * size.heads * size.pieces, columns = std::max<index>(2, size.columns);
  const DType to = pool.cache.first.dtype;
  const Pipe reader = pool.direct() ? Pipe::store : Pipe::vector;
  in_.emplace(
      core.ring("tokens", Space::vector, {rows, columns}, pool.source.first.dtype, {2, Pipe::load_vector, reader}));
  if (pool.direct()) return;
  if (pool.turned()) {
    out_.emplace(core.ring("dims", Space::vector, {size.columns, std::max<index>(2, size.run)}, to,
                           {2, Pipe::vector, Pipe::store}));
    ready_ = core.alloc("converted", Space::vector, {rows, columns}, to);
  } else {
    out_.emplace(core.ring("converted", Space::vector, {rows, columns}, to, {2, Pipe::vector, Pipe::store}));
  }
  if (!pool.quantized()) return;
  scale_.emplace(
      core.ring("scales", Space::vector, {size.tokens * size.heads, 2}, DType::f32, {2, Pipe::vector, Pipe::store}));
  wide_ = core.alloc("x", Space::vector, {rows, columns}, DType::f32);
  other_ = core.alloc("|x|", Space::vector, {rows, columns}, DType::f32);
  for (const auto& [tile, name] : {std::pair{&peaks_, "peaks"}, {&probes_, "x * 0"}, {&spare_, "of a piece"}})
    *tile = core.alloc(name, Space::vector, {size.tokens * size.heads, 2}, DType::f32);
}

Tensor TokenWriter::window(const Tensor& full, const Part& part) const {
  return full.slice(0, part.pieces * part.rows(), 0, part.columns);
}

NdTensor TokenWriter::arranged(const Tensor& tile, const Part& part) const {
  const bool tokens_first = pool_.token_major();
  return by_axes(tile)
      .split(0, tokens_first ? part.heads : part.tokens)
      .split(0, tokens_first ? part.tokens : part.heads);
}

void TokenWriter::load(const Part& part) {
  const NdTensor source = pool_.source.slice(0, part.token, part.tokens)
                              .slice(1, part.head, part.heads)
                              .slice(2, part.piece * pool_.piece() + part.column, part.pieces * part.columns)
                              .split(2, part.columns);
  core_.copy(arranged(window(in_->acquire(), part), part),
             pool_.token_major() ? source.permuted({2, 0, 1, 3}) : source.permuted({2, 1, 0, 3}));
  in_->commit();
}

void TokenWriter::widen(const Part& part) {
  load(part);
  core_.vcast(window(wide_, part), window(in_->wait(), part));
  in_->release();
}

// The peak of each head of each token, and a number that is NaN where an element is not finite.
void TokenWriter::measure(const Part& part, bool first) {
  const index rows = part.rows();
  const Tensor x = window(wide_, part), y = window(other_, part);
  const auto gather = [&](VectorOp reduce, VectorOp join, const Tensor& all) {
    for (index piece = 0; piece < part.pieces; ++piece) {
      const bool begins = first && piece == 0;
      const Tensor found = column(begins ? all : spare_, rows);
      core_.vreduce(reduce, found, y.row_slice(piece * rows, rows));
      if (!begins) core_.vbinary(join, column(all, rows), column(all, rows), found);
    }
  };
  core_.vunary(VectorOp::abs, y, x);
  gather(VectorOp::reduce_max, VectorOp::max, peaks_);
  core_.vscalar(VectorOp::mul, y, x, 0.0f);
  gather(VectorOp::reduce_sum, VectorOp::add, probes_);
}

// A row of zeros has scale 0, one with NaN or infinity NaN.
void TokenWriter::finish_scales(const Part& part, std::span<const TokenRun> runs) {
  const index rows = part.rows();
  scales_ = column(scale_->acquire(), rows);
  core_.vscalar(VectorOp::div, scales_, column(peaks_, rows), 127.0f);
  core_.vbinary(VectorOp::add, scales_, scales_, column(probes_, rows));
  scale_->commit();
  const bool tokens_first = pool_.token_major();
  const NdTensor tile =
      by_axes(column(scale_->wait(), rows)).split(0, tokens_first ? part.heads : part.tokens).at(2, 0);
  for (const TokenRun& run : runs) {
    const NdTensor place =
        pool_.scales.at(0, run.block).slice(0, part.head, part.heads).slice(1, run.in_block, run.count);
    core_.copy(tokens_first ? place.permuted({1, 0}) : place,
               tile.slice(tokens_first ? 0 : 1, run.token - part.token, run.count));
  }
  scale_->release();
}

// A quotient and one rounding; 0 / 0 and NaN become 0.
void TokenWriter::quantize(const Tensor& codes, const Part& part) {
  const index rows = part.rows();
  for (index piece = 0; piece < part.pieces; ++piece) {
    const auto of = [&](const Tensor& full) { return window(full, part).row_slice(piece * rows, rows); };
    core_.vbinary(VectorOp::div, of(other_), of(wide_), scales_);
  }
  core_.vcast(codes, window(other_, part));
}

void TokenWriter::store(const Tensor& tile, const Part& part, std::span<const TokenRun> runs) {
  const bool tokens_first = pool_.token_major();
  const NdTensor rows = arranged(tile, part);
  for (const TokenRun& run : runs) {
    const NdTensor place = pool_.cache.at(0, run.block)
                               .slice(0, part.head, part.heads)
                               .slice(1, part.piece, part.pieces)
                               .slice(2, run.in_block, run.count)
                               .slice(3, part.column, part.columns);
    core_.copy(tokens_first ? place.permuted({1, 2, 0, 3}) : place.permuted({1, 0, 2, 3}),
               rows.slice(tokens_first ? 1 : 2, run.token - part.token, run.count));
  }
}

void TokenWriter::turn_and_store(const Tensor& rows, const Part& part, std::span<const TokenRun> runs) {
  for (const TokenRun& run : runs)
    for (index head = 0; head < part.heads; ++head) {
      const auto dims = [&](const Tensor& full) { return full.slice(0, part.columns, 0, run.count); };
      core_.vtranspose(dims(out_->acquire()), rows.row_slice(head * part.tokens + run.token - part.token, run.count));
      out_->commit();
      const NdTensor place = pool_.cache.at(0, run.block)
                                 .at(0, part.head + head)
                                 .slice(0, part.column, part.columns)
                                 .slice(1, run.in_block, run.count)
                                 .at(2, 0);
      core_.copy(place, by_axes(dims(out_->wait())));
      out_->release();
    }
}

void TokenWriter::write_part(const Part& part, std::span<const TokenRun> runs) {
  if (pool_.direct()) {
    load(part);
    store(window(in_->wait(), part), part, runs);
    return in_->release();
  }
  const Tensor ready = window(pool_.turned() ? ready_ : out_->acquire(), part);
  if (pool_.quantized()) {
    quantize(ready, part);
  } else {
    load(part);
    core_.vcast(ready, window(in_->wait(), part));
    in_->release();
  }
  if (pool_.turned()) return turn_and_store(ready, part, runs);
  out_->commit();
  store(window(out_->wait(), part), part, runs);
  out_->release();
}

// The pieces and columns of some heads of a tile; whole pieces, or parts of one.
template <class Visit> void TokenWriter::for_parts(Part part, Visit&& visit) const {
  for (part.piece = 0; part.piece < pool_.pieces(); part.piece += size_.pieces)
    for (part.column = 0; part.column < pool_.piece(); part.column += size_.columns) {
      part.pieces = std::min(size_.pieces, pool_.pieces() - part.piece);
      part.columns = std::min(size_.columns, pool_.piece() - part.column);
      visit(part);
    }
}

void TokenWriter::write(const TokenTile& tile, std::span<const TokenRun> runs) {
  const index heads = pool_.cache.extent(1);
  for (index head = 0; head < heads; head += size_.heads) {
    const Part all{
        .token = tile.first, .tokens = tile.count, .head = head, .heads = std::min(size_.heads, heads - head)};
    const bool whole = pool_.pieces() <= size_.pieces && pool_.piece() <= size_.columns;
    if (pool_.quantized()) {
      bool first = true;
      for_parts(all, [&](const Part& part) {
        widen(part);
        measure(part, first);
        first = false;
      });
      if (first) {  // no elements
        core_.vfill(column(peaks_, all.rows()), 0);
        core_.vfill(column(probes_, all.rows()), 0);
      }
      finish_scales(all, runs);
    }
    for_parts(all, [&](const Part& part) {
      if (pool_.quantized() && !whole) widen(part);
      write_part(part, runs);
    });
  }
}

}  // namespace inlay::npu::kv
