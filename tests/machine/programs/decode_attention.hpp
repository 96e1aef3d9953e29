// Attention of one new token for each sequence over its cache, in the four stages of IncreFlashAttention:
//
//   mm1    scores   = Q K^T                                  load, feed, matrix, drain
//   vec1   weights  = exp(scale * scores - max), online      vector
//   mm2    products = weights V                              load, feed, matrix, drain
//   vec2   sum      = sum * exp(max_before - max) + products; divide by the sum of weights at the end
//
// The query heads that share a head of the cache are the rows of one product (M = group). The cache of a
// (sequence, head) is cut into `splits` items for the cores, an item into tiles of tokens. Stages work on
// different tiles, so that the loads never stop:
//
//   step i:   load K(i), V(i-2)    mm1, vec1 (i-1)    mm2, vec2 (i-3)
//
// Tiles of all items of a core are one sequence: the pipeline does not run empty between two items.
// A partial result of a split item goes through global memory; after sync_all the splits are merged.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/machine/ring.hpp"
#include "tests/machine/programs/decode_tiles.hpp"
#include "tests/machine/programs/handover.hpp"

namespace inlay::npu {

template <class Machine> void merge_splits(Machine& m, const DecodeAttention& op);

template <class Machine> void decode_attention(Machine& m, const DecodeAttention& op) {
  const DecodeTiles t = decode_tiles(m.device(), m.feeds_are_views(), op);
  const index rows = op.group(), dim = op.dim(), widest = std::max(t.score_columns, dim);
  const DType dtype = op.q.dtype;
  {
    auto staged_q = m.ring("q", Space::staging, 2, {rows, dim}, dtype, Pipe::load, Pipe::feed, Layout::nz);
    auto staged_k = m.ring("k", Space::staging, 2, {t.tokens, dim}, dtype, Pipe::load, Pipe::feed, Layout::nz);
    auto staged_v = m.ring("v", Space::staging, 2, {t.tokens, dim}, dtype, Pipe::load, Pipe::feed, Layout::nz);
    auto left = m.ring("left", Space::left, 2, {rows, std::max(dim, t.product_depth)}, dtype, Pipe::feed, Pipe::matrix,
                       Layout::nz);
    auto right = m.ring("right", Space::right, 2, {std::max(dim, t.product_depth), widest}, dtype, Pipe::feed,
                        Pipe::matrix, Layout::nz);
    auto sums = m.ring("sums", Space::accumulator, 2, {rows, widest}, DType::f32, Pipe::matrix, Pipe::drain);
    ToVector<Machine> scores(m, "scores", {rows, t.tokens}, op.scores);
    ToVector<Machine> products(m, "products", {rows, dim}, op.products);
    ToLeft<Machine> weights(m, weights_ahead, {rows, t.tokens}, dtype, op.weights);
    auto result = m.ring("result", Space::vector, 1, {rows, dim}, op.splits == 1 ? op.out.dtype : DType::f32,
                         Pipe::vector, Pipe::store);

    std::optional<Ring> totals, maxima;  // of an item that is one of several splits
    if (op.splits > 1) {
      totals.emplace(m.ring("totals", Space::vector, 1, {rows, 1}, DType::f32, Pipe::vector, Pipe::store));
      maxima.emplace(m.ring("maxima", Space::vector, 1, {rows, 1}, DType::f32, Pipe::vector, Pipe::store));
    }

    const auto column = [&](const std::string& name) { return m.alloc(name, Space::vector, {rows, 1}, DType::f32); };
    const Tensor maximum = column("maximum"), total = column("total"), fresh = column("fresh maximum"),
                 tile_maximum = column("maximum of a tile"), tile_total = column("total of a tile");
    const Tensor sum = m.alloc("sum", Space::vector, {rows, dim}, DType::f32);
    // What vec1 leaves for vec2, which is two tiles behind: of each tile the rescale, of its item the ends.
    std::vector<Tensor> rescale, end_total, end_maximum;
    for (index i = 0; i < weights_ahead; ++i) {
      rescale.push_back(column("rescale"));
      end_total.push_back(column("total of an item"));
      end_maximum.push_back(column("maximum of an item"));
    }

    // Tiles of this core in order. Items differ in length by the rounding of the splits.
    struct Tile {
      index item, cache_row, query_row, tokens;
      bool first, last;
    };
    std::vector<Tile> tiles;
    const index range = (op.length + op.splits - 1) / op.splits;
    for (index item = m.block_idx(); item < op.items(); item += m.block_dim()) {
      const index cache = item / op.splits, begin = item % op.splits * range, end = std::min(op.length, begin + range);
      for (index token = begin; token < end; token += t.tokens)
        tiles.push_back({item, cache * op.length + token, cache * rows, std::min(t.tokens, end - token), token == begin,
                         token + t.tokens >= end});
    }
    const auto count = static_cast<index>(tiles.size());

    const auto load_k = [&](const Tile& tile) {
      if (tile.first) {
        m.nd2nz(staged_q.acquire(), op.q.row_slice(tile.query_row, rows));
        staged_q.commit();
      }
      m.nd2nz(staged_k.acquire().row_slice(0, tile.tokens), op.k.row_slice(tile.cache_row, tile.tokens));
      staged_k.commit();
    };
    const auto load_v = [&](const Tile& tile) {
      m.nd2nz(staged_v.acquire().row_slice(0, tile.tokens), op.v.row_slice(tile.cache_row, tile.tokens));
      staged_v.commit();
    };

    Tensor query;
    const auto mm1 = [&](const Tile& tile) {
      if (tile.first) query = staged_q.wait();
      const Tensor k = staged_k.wait(), to = scores.acquire();
      m.load_a(left.acquire().slice(0, rows, 0, dim), query);
      left.commit();
      const Tensor q = left.wait().slice(0, rows, 0, dim);
      for (index c = 0; c < tile.tokens; c += t.score_columns) {
        const index n = std::min(t.score_columns, tile.tokens - c);
        m.load_b(right.acquire().slice(0, dim, 0, n), k.row_slice(c, n), true);
        right.commit();
        const Tensor keys = right.wait(), sum_of_tile = sums.acquire();  // arguments have no order of their own
        m.mma(sum_of_tile.slice(0, rows, 0, n), q, keys.slice(0, dim, 0, n), true);
        right.release();
        sums.commit();
        m.drain(to.slice(0, rows, c, n), sums.wait().slice(0, rows, 0, n));
        sums.release();
      }
      left.release();
      staged_k.release();
      if (tile.last) staged_q.release();
      scores.commit(rows, tile.tokens);
    };

    const auto vec1 = [&](const Tile& tile, index i) {
      const auto slot = static_cast<std::size_t>(i % weights_ahead);
      const Tensor s = scores.wait().slice(0, rows, 0, tile.tokens), alpha = rescale[slot];
      if (tile.first) {
        m.vfill(maximum, -std::numeric_limits<float>::infinity());
        m.vfill(total, 0);
      }
      m.vscalar(VectorOp::mul, s, s, op.scale);
      m.barrier(Pipe::vector);
      m.vreduce(VectorOp::reduce_max, tile_maximum, s);
      m.barrier(Pipe::vector);
      m.vbinary(VectorOp::max, fresh, maximum, tile_maximum);
      m.barrier(Pipe::vector);
      m.vbinary(VectorOp::sub, alpha, maximum, fresh);
      m.vbinary(VectorOp::sub, s, s, fresh);
      m.barrier(Pipe::vector);
      m.vcast(maximum, fresh);
      m.vunary(VectorOp::exp, alpha, alpha);
      m.vunary(VectorOp::exp, s, s);
      m.barrier(Pipe::vector);
      m.vbinary(VectorOp::mul, total, total, alpha);
      m.vreduce(VectorOp::reduce_sum, tile_total, s);
      m.vcast(weights.acquire().slice(0, rows, 0, tile.tokens), s);
      weights.commit(rows, tile.tokens);
      scores.release();
      m.barrier(Pipe::vector);
      m.vbinary(VectorOp::add, total, total, tile_total);
      m.barrier(Pipe::vector);
      if (!tile.last) return;
      m.vcast(end_total[slot], total);
      m.vcast(end_maximum[slot], maximum);
      m.barrier(Pipe::vector);
    };

    const auto mm2 = [&](const Tile& tile) {
      const Tensor p = weights.wait(rows, tile.tokens), v = staged_v.wait();
      const Tensor acc = sums.acquire().slice(0, rows, 0, dim);
      for (index k = 0; k < tile.tokens; k += t.product_depth) {
        const index depth = std::min(t.product_depth, tile.tokens - k);
        m.load_a(left.acquire().slice(0, rows, 0, depth), p.slice(0, rows, k, depth));
        left.commit();
        m.load_b(right.acquire().slice(0, depth, 0, dim), v.row_slice(k, depth));
        right.commit();
        const Tensor values = right.wait(), part = left.wait();
        m.mma(acc, part.slice(0, rows, 0, depth), values.slice(0, depth, 0, dim), k == 0);
        left.release();
        right.release();
      }
      weights.release();
      staged_v.release();
      sums.commit();
      const Tensor product = sums.wait(), to = products.acquire();
      m.drain(to, product.slice(0, rows, 0, dim));
      sums.release();
      products.commit(rows, dim);
    };

    const auto vec2 = [&](const Tile& tile, index i) {
      const auto slot = static_cast<std::size_t>(i % weights_ahead);
      const Tensor product = products.wait();
      if (tile.first) {
        m.vcast(sum, product);
      } else {
        m.vbinary(VectorOp::mul, sum, sum, rescale[slot]);
        m.barrier(Pipe::vector);
        m.vbinary(VectorOp::add, sum, sum, product);
      }
      products.release();
      m.barrier(Pipe::vector);
      if (!tile.last) return;
      if (op.splits == 1) {
        m.vbinary(VectorOp::div, sum, sum, end_total[slot]);
        m.barrier(Pipe::vector);
      }
      m.vcast(result.acquire(), sum);
      result.commit();
      m.barrier(Pipe::vector);
      const Tensor to =
          op.splits == 1 ? op.out.row_slice(tile.query_row, rows) : op.sums.row_slice(tile.item * rows, rows);
      m.copy(to, result.wait());
      const auto store = [&](Ring& ring, const Tensor& column_of_rows, const Tensor& all) {
        m.vcast(ring.acquire(), column_of_rows);
        ring.commit();
        m.copy(all.row_slice(tile.item * rows, rows), ring.wait());
        ring.release();
      };
      if (op.splits > 1) {
        store(*totals, end_total[slot], op.totals);
        store(*maxima, end_maximum[slot], op.maxima);
        m.barrier(Pipe::vector);
      }
      result.release();
    };

    for (index i = 0; i < count + 3; ++i) {
      const auto has = [&](index tile) { return tile >= 0 && tile < count; };
      const auto at = [&](index tile) -> const Tile& { return tiles[static_cast<std::size_t>(tile)]; };
      if (has(i)) load_k(at(i));
      if (has(i - 2)) load_v(at(i - 2));
      if (has(i - 1)) mm1(at(i - 1));
      if (has(i - 1)) vec1(at(i - 1), i - 1);
      if (has(i - 3)) mm2(at(i - 3));
      if (has(i - 3)) vec2(at(i - 3), i - 3);
    }
  }
  if (op.splits > 1) merge_splits(m, op);
}

// out = sum_s exp(max_s - max) sums_s / sum_s exp(max_s - max) total_s, over the splits s of each head.
template <class Machine> void merge_splits(Machine& m, const DecodeAttention& op) {
  m.sync_all();
  const index rows = op.group(), dim = op.dim(), all = op.splits * rows;
  auto sums = m.ring("partial sums", Space::vector, 2, {all, dim}, DType::f32, Pipe::load_vector, Pipe::vector);
  auto maxima = m.ring("partial maxima", Space::vector, 2, {all, 1}, DType::f32, Pipe::load_vector, Pipe::vector);
  auto totals = m.ring("partial totals", Space::vector, 2, {all, 1}, DType::f32, Pipe::load_vector, Pipe::vector);
  auto out = m.ring("out", Space::vector, 2, {rows, dim}, op.out.dtype, Pipe::vector, Pipe::store);
  const Tensor maximum = m.alloc("maximum over splits", Space::vector, {rows, 1}, DType::f32);

  for (index head = m.block_idx(); head < op.sequences * op.cache_heads; head += m.block_dim()) {
    m.copy(maxima.acquire(), op.maxima.row_slice(head * all, all));
    maxima.commit();
    m.copy(totals.acquire(), op.totals.row_slice(head * all, all));
    totals.commit();
    m.copy(sums.acquire(), op.sums.row_slice(head * all, all));
    sums.commit();
    const Tensor top = maxima.wait(), weight = totals.wait(), part = sums.wait();
    const auto of = [&](const Tensor& tensor, index split) { return tensor.row_slice(split * rows, rows); };
    m.vcast(maximum, of(top, 0));
    for (index split = 1; split < op.splits; ++split) {
      m.barrier(Pipe::vector);
      m.vbinary(VectorOp::max, maximum, maximum, of(top, split));
    }
    m.barrier(Pipe::vector);
    for (index split = 0; split < op.splits; ++split) m.vbinary(VectorOp::sub, of(top, split), of(top, split), maximum);
    m.barrier(Pipe::vector);
    m.vunary(VectorOp::exp, top, top);
    m.barrier(Pipe::vector);
    m.vbinary(VectorOp::mul, weight, weight, top);
    m.vbinary(VectorOp::mul, part, part, top);
    m.barrier(Pipe::vector);
    for (index split = 1; split < op.splits; ++split) {
      m.vbinary(VectorOp::add, of(weight, 0), of(weight, 0), of(weight, split));
      m.vbinary(VectorOp::add, of(part, 0), of(part, 0), of(part, split));
      m.barrier(Pipe::vector);
    }
    m.vbinary(VectorOp::div, of(part, 0), of(part, 0), of(weight, 0));
    m.barrier(Pipe::vector);
    m.vcast(out.acquire(), of(part, 0));
    out.commit();
    maxima.release();
    totals.release();
    sums.release();
    m.barrier(Pipe::vector);
    m.copy(op.out.row_slice(head * rows, rows), out.wait());
    out.release();
  }
}

}  // namespace inlay::npu
