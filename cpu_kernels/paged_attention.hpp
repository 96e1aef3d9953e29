// Decode attention reads each K and V once, so memory is the limit: bytes = context * kv_heads *
// (key_dim + value_dim) elements. A task is one part of one sequence and a range of kv heads:
//
//   for each tile of tokens                         offsets through the table, once for all heads
//     for each stretch of it, each kv head          S = q K^T: 4 heads x 4 tokens in 16 registers
//     for each query head                           P = softmax so far
//     for each stretch of it, each kv head          O = O * factor + P V
//
// Stretches go through all heads before the next: memory is read in the order in which it lies
// (attention/decode.hpp has the figures), and while one is in hand, the same heads' share of the next one
// is on its way; the one after the last of K is the first of V. Parts leave (O, max, sum) in the workspace;
// a second pass merges them in order and divides.
#pragma once

#include <inlay/cpu.hpp>
#include <inlay/ops/paged_attention.hpp>

#include "cpu_kernels/attention/paged_parts.hpp"
#include "cpu_kernels/attention/paged_scores.hpp"
#include "cpu_kernels/attention/rows.hpp"
#include "cpu_kernels/support/dtypes.hpp"

namespace inlay::cpu::paged {

inline constexpr index paged_heads = 64;  // query heads that share one pass over a tile

// A tile of tokens of one sequence: offsets of head 0, which all heads share.
struct PagedTile {
  index first = 0, count = 0;
  index key[paged_tile], value[paged_tile];            // of each token; beyond count: the last one again
  index key_line[paged_tile], value_line[paged_tile];  // what to prefetch for it
  index block[paged_tile], in_block[paged_tile];
  index piece_at[paged_tile], piece_length[paged_tile], pieces = 0;  // runs of slots within a block
};

// A block and head of vLLM's layouts is one dense stretch: token i prefetches the i-th share of it.
template <class V> INLAY_INLINE index share_of(const V& cache, index in_block) {
  return in_block * (cache.extents[2] == 1 ? cache.strides[3] : cache.extents[2] * cache.extents[4]);
}

template <class Level>
void lay_tile(const PagedAttention<Host>& op, const std::int32_t* table, index begin, index end, PagedTile& tile) {
  const auto& keys = op.key_cache;
  const auto& values = op.value_cache;
  const index block_size = block_size_of(keys);
  tile.first = begin;
  tile.count = end - begin < paged_tile ? end - begin : paged_tile;
  tile.pieces = 0;
  if (tile.count <= 0) return;
  index entry = begin / block_size, in_block = begin % block_size;
  for (index t = 0; t < tile.count; ++entry, in_block = 0) {
    const index block = table[entry],
                run = block_size - in_block < tile.count - t ? block_size - in_block : tile.count - t;
    const index key = block * keys.strides[0], value = block * values.strides[0];
    tile.piece_at[tile.pieces] = value + in_block * values.strides[3];
    tile.piece_length[tile.pieces++] = run;
    for (index i = in_block; i < in_block + run; ++i, ++t) {
      tile.key[t] = key + i * keys.strides[3];
      tile.value[t] = value + i * values.strides[3];
      tile.key_line[t] = key + share_of(keys, i);
      tile.value_line[t] = value + share_of(values, i);
      tile.block[t] = block;
      tile.in_block[t] = i;
    }
  }
  for (index t = tile.count; t % row_tile != 0; ++t) tile.key[t] = tile.key[tile.count - 1];
}

// One part of one sequence for kv heads head_begin .. head_end.
template <class Level, class T> class PagedPart {
  using F = simd::Floats<Level>;

 public:
  PagedPart(const PagedAttention<Host>& op, const PagedScratch& scratch, index b, index part, index head_begin,
            index head_end)
      : op_(op),
        scratch_(scratch),
        b_(b),
        part_(part),
        head_begin_(head_begin),
        head_end_(head_end),
        group_(op.q.extents[1] / kv_head_count(op.key_cache)),
        dim_(op.q.extents[2]),
        value_dim_(op.out.extents[2]),
        rows_of_values_(op.value_cache.extents[2] == 1),
        // Slots side by side and each in a dim of its own: vLLM's values.
        slots_of_values_(op.value_cache.extents[4] == 1 &&
                         (op.value_cache.strides[3] == 1 || op.value_cache.extents[3] == 1)) {
    const ScoreRule rule = score_rule(op, dim_);
    score_ = {static_cast<float>(rule.scale), op.softcap, op.bias_order};
    stretch_ = stretch_tokens((head_end - head_begin) * dim_ * static_cast<index>(sizeof(T)));
  }

  // Keys of the part; `end`: up to where this worker goes on with the parts behind it. `cold`: nobody has
  // asked for the first stretch yet, and each head asks for the next one's rows.
  void run(KeyRange keys, index end, index position, bool cold) {
    const std::int32_t* const table = op_.block_tables.template as<std::int32_t>() + b_ * op_.block_tables.strides[0];
    clear();
    PagedTile tiles[2];
    lay_tile<Level>(op_, table, keys.begin, keys.end, tiles[0]);
    if (cold) keys_ahead(tiles[0], head_begin_, 0).fetch(0, stretch_);
    for (int now = 0; tiles[now].first < keys.end; now = 1 - now) {
      const PagedTile& tile = tiles[now];
      PagedTile& next = tiles[1 - now];
      const index behind = tile.first + tile.count;
      lay_tile<Level>(op_, table, behind, behind < keys.end ? keys.end : end, next);
      for (index t = 0; t < paged_tile; ++t) distance_[t] = static_cast<float>(tile.first + t - position);
      const index whole = paged_heads / group_ > 0 ? paged_heads / group_ : 1;  // kv heads whose scores fit
      for (index head = head_begin_; head < head_end_; head += whole)
        for (index done = 0; done < group_; done += paged_heads)
          attend(tile,
                 {head, head + whole < head_end_ ? head + whole : head_end_, done,
                  group_ - done < paged_heads ? group_ - done : paged_heads},
                 next, cold && tile.first == keys.begin);
    }
  }

 private:
  void clear() {
    for (index h = head_begin_ * group_; h < head_end_ * group_; ++h) {
      float* const o = scratch_.o_of(b_, part_, h);
      for (index d = 0; d < scratch_.o_row; d += F::size) F().store(o + d);
      const SoftmaxState<float> nothing;
      float* const state = scratch_.state_of(b_, part_, h);
      state[0] = nothing.max, state[1] = nothing.sum;
    }
  }

  void gather_scales(const ConstView<3>& scales, float whole, const PagedTile& tile, index head, float* to) const {
    for (index t = 0; t < paged_tile; ++t)
      to[t] = t >= tile.count    ? 0
              : scales.present() ? whole * scales.as<float>()[offset(scales, tile.block[t], head, tile.in_block[t])]
                                 : whole;
  }

  // Query heads done .. done + heads of the group of each kv head begin .. end.
  struct Heads {
    index begin, end, done, heads;
    INLAY_INLINE index row(index head) const { return (head - begin) * heads; }
  };

  // The stretch of K or V of one kv head that begins at token `from` of the tile.
  RowsAhead<T> keys_ahead(const PagedTile& tile, index head, index from) const {
    return {op_.key_cache.template as<T>() + head * op_.key_cache.strides[1], tile.key_line + from, stretch(tile, from),
            dim_ * static_cast<index>(sizeof(T))};
  }
  RowsAhead<T> values_ahead(const PagedTile& tile, index head, index from) const {
    return {op_.value_cache.template as<T>() + head * op_.value_cache.strides[1], tile.value_line + from,
            stretch(tile, from), value_dim_ * static_cast<index>(sizeof(T))};
  }
  index stretch(const PagedTile& tile, index from) const {
    return tile.count - from < stretch_ ? tile.count - from : stretch_;
  }

  void attend(const PagedTile& tile, const Heads& of, const PagedTile& next, bool cold) {
    alignas(64) float s[paged_heads][paged_tile];
    float factor[paged_heads];
    for (index t = 0; t < tile.count; t += stretch_)
      for (index head = of.begin; head < of.end; ++head) {
        if (cold && t == 0 && head + 1 < head_end_) keys_ahead(tile, head + 1, 0).fetch(0, stretch_);
        scores(tile, t, head, of, s[of.row(head)] + t,
               t + stretch_ < tile.count ? keys_ahead(tile, head, t + stretch_) : values_ahead(tile, head, 0));
      }
    for (index head = of.begin; head < of.end; ++head) weights(tile, head, of, s[of.row(head)], factor + of.row(head));
    if (!rows_of_values_) {
      for (index head = of.begin; head < of.end; ++head) {
        keys_ahead(next, head, 0).fetch(0, stretch_);
        weigh_other(tile, head, of, s[of.row(head)], factor + of.row(head));
      }
      return;
    }
    for (index t = 0; t < tile.count; t += stretch_) {
      for (index head = of.begin; head < of.end; ++head)
        weigh_rows<Level, T>(
            s[of.row(head)] + t, paged_tile, of.heads,
            op_.value_cache.template as<T>() + head * op_.value_cache.strides[1], tile.value + t, stretch(tile, t),
            value_dim_, scratch_.o_of(b_, part_, head * group_ + of.done), scratch_.o_row, factor + of.row(head),
            t + stretch_ < tile.count ? values_ahead(tile, head, t + stretch_) : keys_ahead(next, head, 0));
      for (float& f : factor) f = 1;
    }
  }

  // s -> weights of the tile's tokens, for the heads of one kv head.
  void weights(const PagedTile& tile, index head, const Heads& of, float* s, float* factor) {
    float key_scales[paged_tile], value_scales[paged_tile];
    constexpr bool quantized = std::is_same_v<T, std::int8_t>;
    if constexpr (quantized) {
      gather_scales(op_.key_scales, op_.key_scale, tile, head, key_scales);
      gather_scales(op_.value_scales, op_.value_scale, tile, head, value_scales);
    }
    for (index h = 0; h < of.heads; ++h) {
      const index q_head = head * group_ + of.done + h;
      float* const kept = scratch_.state_of(b_, part_, q_head);
      float* const row = s + h * paged_tile;
      if (!only_scaled(op_, q_head))
        score_tile<Level>(score_, row, alibi_slope(op_, q_head), distance_, quantized ? key_scales : nullptr);
      for (index t = tile.count; t < paged_tile; ++t) row[t] = minus_infinity;
      SoftmaxState<float> state{kept[0], kept[1]};
      factor[h] = softmax_tile<Level>(row, state);
      if constexpr (quantized)
        for (index t = 0; t < paged_tile; t += F::size) (F::load(row + t) * F::load(value_scales + t)).store(row + t);
      kept[0] = state.max, kept[1] = state.sum;
    }
  }

  // s of tokens t .. t + stretch_.
  void scores(const PagedTile& tile, index t, index head, const Heads& of, float* s, const RowsAhead<T>& ahead) const {
    const auto& cache = op_.key_cache;
    const T* const keys = cache.template as<T>() + head * cache.strides[1];
    const index tokens = stretch(tile, t);
    constexpr index most = 64;  // pieces of one row at a time: dim 512 of f16 in vLLM's layout
    index at[most], length[most];
    const index groups = cache.extents[2], x = cache.extents[4];
    for (index from = 0; from < groups; from += most) {
      const index count = groups - from < most ? groups - from : most;
      for (index j = 0; j < count; ++j) at[j] = (from + j) * cache.strides[2], length[j] = x;
      const float* const q = scratch_.q_of(b_, head * group_ + of.done) + from * x;
      if (from == 0) {
        dot_rows<Level, T>(q, scratch_.q_row, of.heads, keys, tile.key + t, tokens, {at, length, count}, s, paged_tile,
                           ahead);
      } else {
        alignas(64) float more[paged_heads][paged_tile];
        dot_rows<Level, T>(q, scratch_.q_row, of.heads, keys, tile.key + t, tokens, {at, length, count}, more[0],
                           paged_tile, {});
        for (index h = 0; h < of.heads; ++h)
          for (index i = 0; i < tokens; ++i) s[h * paged_tile + i] += more[h][i];
      }
    }
  }

  void weigh_other(const PagedTile& tile, index head, const Heads& of, const float* p, const float* factor) const {
    const T* const values = op_.value_cache.template as<T>() + head * op_.value_cache.strides[1];
    float* const o = scratch_.o_of(b_, part_, head * group_ + of.done);
    if (slots_of_values_)
      weigh_slots(values, tile, of.heads, p, o, factor);
    else
      weigh_gathered(values, tile, of.heads, p, o, factor);
  }

  // Lanes over slots: each dim is a row in pieces, one a block.
  void weigh_slots(const T* values, const PagedTile& tile, index heads, const float* p, float* o,
                   const float* factor) const {
    for (index d = 0; d < value_dim_; d += paged_tile) {
      const index dims = value_dim_ - d < paged_tile ? value_dim_ - d : paged_tile;
      alignas(64) float sums[paged_heads][paged_tile];
      index row[paged_tile];
      for (index r = 0; r < paged_tile; ++r) row[r] = (d + (r < dims ? r : dims - 1)) * op_.value_cache.strides[2];
      dot_rows<Level, T>(p, paged_tile, heads, values, row, dims, {tile.piece_at, tile.piece_length, tile.pieces},
                         sums[0], paged_tile, {});
      for (index h = 0; h < heads; ++h) {
        float* const to = o + h * scratch_.o_row + d;
        for (index i = 0; i < dims; i += F::size)
          fma(F::load(to + i), F(factor[h]), F::load(sums[h] + i)).store(to + i);
      }
    }
  }

  // Any other layout: 64 dims of the tile are gathered into rows first.
  void weigh_gathered(const T* values, const PagedTile& tile, index heads, const float* p, float* o,
                      const float* factor) const {
    index row[paged_tile];
    for (index t = 0; t < paged_tile; ++t) row[t] = t * paged_tile;
    for (index d = 0; d < value_dim_; d += paged_tile) {
      const index dims = value_dim_ - d < paged_tile ? value_dim_ - d : paged_tile;
      T part[paged_tile * paged_tile];
      for (index t = 0; t < tile.count; ++t)
        for (index i = 0; i < dims; ++i)
          part[t * paged_tile + i] = values[tile.value[t] + dim_offset(op_.value_cache, d + i)];
      weigh_rows<Level, T>(p, paged_tile, heads, part, row, tile.count, dims, o + d, scratch_.o_row, factor, {});
    }
  }

  const PagedAttention<Host>& op_;
  const PagedScratch& scratch_;
  index b_, part_, head_begin_, head_end_, group_, dim_, value_dim_, stretch_;
  bool rows_of_values_, slots_of_values_;
  PagedScore score_;
  alignas(64) float distance_[paged_tile];
};

template <class Level>
Status paged_attention(const Parallel& parallel, const PagedAttention<Host>& op, Workspace workspace) {
  using F = simd::Floats<Level>;
  PagedScratch scratch = paged_shape<Level>(op);
  const index seqs = op.q.extents[0], rows = seqs * scratch.q_heads, kv_heads = kv_head_count(op.key_cache);
  if (rows == 0) return {};
  WorkspaceCutter cutter(workspace);
  scratch.q = cutter.take<float>(rows * scratch.q_row);
  scratch.o = cutter.take<float>(rows * scratch.parts * scratch.o_row);
  scratch.state = cutter.take<float>(rows * scratch.parts * 2);
  const auto length = [&](index b) -> index {
    return op.context_lens.as<std::int32_t>()[b * op.context_lens.strides[0]];
  };

  index parts = 0, longest = 0;
  for (index b = 0; b < seqs; ++b) {
    parts += paged_parts(op, length(b));
    longest = length(b) > longest ? length(b) : longest;
    for (index h = 0; h < scratch.q_heads; ++h)
      with_float(op.q.dtype, [&]<class T>(Type<T>) {
        const T* const from = op.q.as<T>() + b * op.q.strides[0] + h * op.q.strides[1];
        const F scale(only_scaled(op, h) ? static_cast<float>(score_rule(op, op.q.extents[2]).scale) : 1.0f);
        for (index d = 0; d < op.q.extents[2]; d += F::size) {
          const index left = op.q.extents[2] - d;
          (scale * (left < F::size ? F::load(from + d, left) : F::load(from + d))).store(scratch.q_of(b, h) + d);
        }
      });
  }

  // Heads of a token lie side by side in the flat layout, so a task takes as many of them as leaves
  // every thread a few tasks. Heads do not mix: the cut leaves no trace in the result.
  constexpr index tasks_per_thread = 2;
  const index wanted = (tasks_per_thread * parallel.width + parts) / (parts > 0 ? parts : 1);
  const index cuts = parallel.width == 1 ? 1 : wanted < kv_heads ? (wanted < 1 ? 1 : wanted) : kv_heads;
  const index deepest = paged_parts(op, longest);
  // Parts side by side are one task where there are more than enough of them: each hands its successor a
  // stretch that is already on its way.
  index in_a_row = seqs * deepest * cuts / (tasks_per_thread * parallel.width);
  if (in_a_row > deepest) in_a_row = deepest;
  if (in_a_row < 1) in_a_row = 1;
  const index runs = (deepest + in_a_row - 1) / in_a_row;
  const auto attend = [&]<class T>(Type<T>) {
    parallel(seqs * runs * cuts, [&](index task) {
      const index cut = task % cuts, first = task / cuts % runs * in_a_row, b = task / cuts / runs;
      const index last = first + in_a_row < deepest ? first + in_a_row : deepest;
      const KeyRange visible = visible_keys(op, length(b));
      bool cold = true;
      for (index part = first; part < last; ++part) {
        const KeyRange keys = part_keys(op, visible, part);
        if (keys.empty()) continue;
        PagedPart<Level, T>(op, scratch, b, part, kv_heads * cut / cuts, kv_heads * (cut + 1) / cuts)
            .run(keys, part_keys(op, visible, last - 1).end, length(b) - 1, cold);
        cold = false;
      }
    });
  };
  if (op.key_cache.dtype == DType::i8)
    attend(Type<std::int8_t>{});
  else
    with_float(op.key_cache.dtype, attend);
  parallel.ranges(rows, 1, [&](index begin, index end) {
    for (index row = begin; row < end; ++row) {
      const index b = row / scratch.q_heads;
      finish_row<Level>(op, scratch, visible_keys(op, length(b)), b, row % scratch.q_heads);
    }
  });
  return {};
}

}  // namespace inlay::cpu::paged
