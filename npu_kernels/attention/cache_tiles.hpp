// Tiles of K or V on their way to the vector unit, in f32: rows of tokens, whatever the cache looks like.
//
//   plain rows     copy [n, dim]                                   one for each run of tokens, or for each block
//   pieces of x    [group, token, x] of a block into one row, then a gather by a table of places:
//   (vLLM)
//                  |group 0: token 0, token 1, .. |group 1: ..      place(t, d) = d / x * pitch + t * step + d % x
//
// Pieces that start at the memory's granule need no gather. int8 becomes (x + offset) * scale.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

inline index granule_of(const Device& device, DType dtype) {
  return std::max<index>(1, index{device.memory(Space::vector).granule} * 8 / bits(dtype));
}

// Pieces of x dims of K or V must be gathered. A part that is, of two, takes so much of the memory at most.
inline constexpr index gathered_share = 16;
inline bool must_gather(const Device& device, const Cached& cached) {
  const NdTensor& view = cached.views.front();
  return view.extent(3) > 1 && view.extent(4) % granule_of(device, cached.dtype()) != 0;
}

// Scales and offsets of K and V: a column of tokens, or a row of channels or of one element.
class ScaleTiles {
 public:
  ScaleTiles(Core& core, const AttentionCall& problem, index tokens)
      : core_(core), problem_(problem), ring_([&] {
          const auto form = [&](const char* name, const NdTensor& k, const NdTensor& v) {
            Shape shape{1, 2};
            for (const auto& [scale, dim] : {std::pair{&k, problem.k.dim}, std::pair{&v, problem.v.dim}}) {
              if (!scale->present()) continue;
              if (of_tokens(*scale)) shape.rows = tokens;
              if (scale->extent(3) > 1) shape.columns = std::max(shape.columns, dim);
            }
            return TileForm{name, Space::vector, shape, DType::f32, Layout::nd};
          };
          return core.ring<2>("scales",
                              {form("scales", problem.bound.k.scale, problem.bound.v.scale),
                               form("offsets", problem.bound.k.offset, problem.bound.v.offset)},
                              {1, Pipe::load_vector, Pipe::vector});
        }()) {}

  void apply(const Cached& cached, const TokenRange& range, const Tensor& tile) {
    const auto slots = ring_.acquire();
    load(slots[0], cached.scale, range);
    if (cached.offset.present()) load(slots[1], cached.offset, range);
    ring_.commit();
    const auto filled = ring_.wait();
    if (cached.offset.present())
      core_.vbinary(VectorOp::add, tile, tile, part_of(filled[1], cached.offset, range.count));
    core_.vbinary(VectorOp::mul, tile, tile, part_of(filled[0], cached.scale, range.count));
    ring_.release();
  }

 private:
  bool of_tokens(const NdTensor& scale) const {
    return scale.extent(1) > 1 || (problem_.block_table.present() && scale.extent(0) > 1);
  }
  Tensor part_of(const Tensor& slot, const NdTensor& scale, index tokens) const {
    return slot.slice(0, of_tokens(scale) ? tokens : 1, 0, scale.extent(3));
  }
  void load(const Tensor& slot, const NdTensor& scale, const TokenRange& range) {
    const AttentionSequence& s = *range.sequence;
    const NdTensor of_head = scale.slice(2, scale.extent(2) > 1 ? range.kv_head : 0, 1);
    const auto rows = [&](index outer, index row, index count) {
      const NdTensor of_outer = of_head.at(0, scale.extent(0) > 1 ? outer : 0);  // [row, 1, dim]
      return (scale.extent(1) > 1 ? of_outer.slice(0, row, count) : spread(of_outer, 0, count)).at(1, 0);
    };
    const Tensor tile = part_of(slot, scale, range.count);
    if (!of_tokens(scale))
      return core_.copy(by_axes(tile), rows(problem_.block_table.present() ? 0 : s.scale_outer, 0, 1));
    for_parts(problem_, range, s.scale_outer, s.row, [&](index outer, index row, index at, index count) {
      core_.copy(by_axes(tile.row_slice(at, count)), rows(outer, row, count));
    });
  }

  Core& core_;
  const AttentionCall& problem_;
  TupleRing<2> ring_;
};

class CacheTiles {
 public:
  // `space`: room for a tile in f32, where the table of places is made.
  CacheTiles(Core& core, const AttentionCall& problem, const Cached& cached, const char* name, index tokens,
             ScaleTiles* scales, const Tensor& space)
      : core_(core), problem_(problem), cached_(cached), scales_(scales), gathers_(must_gather(core.device(), cached)) {
    const Shape rows{std::max<index>(tokens, 2), std::max<index>(cached.dim, 2)};
    const Flow flow{2, Pipe::load_vector, Pipe::vector};
    if (!gathers_) {
      ring_.emplace(core.ring(name, Space::vector, rows, cached.dtype(), flow));
      return;
    }
    const NdTensor& view = cached.views.front();
    const index granule = granule_of(core.device(), cached.dtype());
    step_ = view.stride(1) == piece() ? piece() : round_up(piece(), granule);
    const index room = static_cast<index>(core.device().memory(Space::vector).bytes) / gathered_share;
    const index of_a_group = room / groups() * 8 / bits(cached.dtype()) / granule * granule;
    part_rows_ = std::clamp<index>(of_a_group / step_, 1, std::min(tokens, problem.block_size()));
    pitch_ = round_up(part_rows_ * step_, granule);
    // The gather reads a whole row: what no transfer fills in it is there from the start.
    std::vector<Tensor> parts;
    for (std::uint32_t i = 0; i < flow.depth; ++i) {
      parts.push_back(core.alloc(name, Space::vector, {1, groups() * pitch_}, cached.dtype()));
      core.vfill(parts.back(), 0);
    }
    core.barrier_all();
    ring_.emplace(core.ring(name, std::move(parts), flow.producer, flow.consumer));
    tile_ = core.alloc("tokens", Space::vector, rows, cached.dtype());
    make_places(space);
  }
  // Ahead of widen, which takes the tiles in the same order. What is gathered comes there, part after part.
  void load(const TokenRange& range) {
    if (gathers_) return;
    const Tensor tile = ring_->acquire();
    for_rows(problem_, cached_, range, [&](index at, const NdTensor& rows) {
      core_.copy(by_axes(tile.slice(at, rows.extent(0), 0, cached_.dim)).split(1, piece()), rows);
    });
    ring_->commit();
  }
  // In f32, in `space`; a tile of an f32 cache is its own, and stays until release.
  Tensor widen(const TokenRange& range, const Tensor& space) {
    const auto used = [&](const Tensor& tile) { return tile.slice(0, range.count, 0, cached_.dim); };
    if (gathers_) gather(range, used(tile_));
    const Tensor tile = used(gathers_ ? tile_ : ring_->wait());
    if (cached_.dtype() == DType::f32) return tile;
    const Tensor wide = used(space);
    core_.vcast(wide, tile);
    if (!gathers_) ring_->release();
    if (scales_ != nullptr && cached_.scale.present()) scales_->apply(cached_, range, wide);
    return wide;
  }
  void release() {
    if (!gathers_ && cached_.dtype() == DType::f32) ring_->release();
  }

 private:
  // place(t, d) = d + t * step + d / x * (pitch - x), exact in f32 as all of them are below 2^24.
  void make_places(const Tensor& space) {
    const Shape shape{std::max<index>(part_rows_, 2), std::max<index>(cached_.dim, 2)};
    places_ = core_.alloc("places", Space::vector, shape, DType::i32);
    const Tensor sums = space.slice(0, shape.rows, 0, shape.columns);
    const Tensor row = core_.alloc("first place of a group", Space::vector, {1, shape.columns}, DType::f32);
    const Tensor whole = core_.alloc("group", Space::vector, {1, shape.columns}, DType::i32);
    const double x = static_cast<double>(piece());
    core_.viota(row, {.first = 0.5 / x, .column_step = 1 / x});
    core_.vcast(whole, row, Round::floor);
    core_.vcast(row, whole);
    core_.vscalar(VectorOp::mul, row, row, static_cast<float>(pitch_ - piece()));
    core_.viota(sums, {.first = 0, .column_step = 1, .row_step = static_cast<double>(step_)});
    core_.vbinary(VectorOp::add, sums, sums, row);
    core_.vcast(places_, sums);
  }
  void gather(const TokenRange& range, const Tensor& tile) {
    for_rows(problem_, cached_, range, [&](index at, const NdTensor& rows) {
      const index count = rows.extent(0);
      for (index done = 0; done < count; done += part_rows_) {
        const index n = std::min(part_rows_, count - done);
        const NdTensor slot = by_axes(ring_->acquire()).split(1, pitch_).at(0, 0).slice(1, 0, n * step_);
        core_.copy(slot.split(1, step_).slice(2, 0, piece()), rows.slice(0, done, n).permuted({1, 0, 2}));
        ring_->commit();
        core_.vgather(tile.row_slice(at + done, n), ring_->wait(), places_.slice(0, n, 0, cached_.dim));
        ring_->release();
      }
    });
  }
  index groups() const { return cached_.views.front().extent(3); }
  index piece() const { return cached_.views.front().extent(4); }

  Core& core_;
  const AttentionCall& problem_;
  const Cached& cached_;
  ScaleTiles* scales_;
  const bool gathers_;
  std::optional<Ring> ring_;
  index part_rows_ = 0, step_ = 0, pitch_ = 0;  // of what is gathered: tokens, and elements from one to the next
  Tensor tile_, places_;
};

}  // namespace inlay::npu
