// From scaled products to weights: bias, softcap and masks of a tile [rows, keys] (core/attention.hpp), then the
// softmax of rows whose columns come in tiles, one after the other.
//
//   row r is query r / heads of head r % heads of the unit
//   bias[r, c]   pse + slope[head] * (key - position)
//   seen[r, c]   first[r] <= c < end[r], not masked, its bit set, its bias not -inf
//
//   m = max(m_before, max(s))    s' = exp(s - m)    alpha = exp(m_before - m)    total = alpha total + sum s'
//
// What a reader has summed up with weights of earlier tiles is to be multiplied by alpha.
#pragma once

#include <limits>
#include <optional>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// Is the end of a window the only rule by which keys are hidden, as under a causal mask?
inline bool one_rule(const AttentionCall& problem) {
  return problem.window_left < 0 && !problem.bias.present() && !problem.mask.present() &&
         !problem.packed_mask.present();
}

class ScoreRules {
 public:
  // `seen` columns of a tile's tokens, at most, are seen by some rows and not by others.
  ScoreRules(Core& core, const AttentionCall& problem, index rows, index tokens, index seen);
  // Is there a rule that changes a score of these rows and keys?
  bool concern(const QueryTile& unit, const KeyTile& tile) const;
  // Of the unit whose tiles follow; `slopes` are those of its rows.
  void begin(const QueryTile& unit, const Tensor& slopes);
  // Of scores without key_factor and scale in them already. Is there a key that a row does not see? Its score is -inf
  // then, and seen() says which.
  bool apply(const Tensor& scores, const KeyTile& tile);
  // Where the end of a window is the only rule: -inf behind it. Columns that all rows see are not looked at.
  void hide_ends(const Tensor& scores, const KeyTile& tile);
  Tensor seen(index row, index count) const { return seen_.slice(row, 1, 0, count).reshape({count, 1}); }

 private:
  Tensor full(const char* name, DType dtype = DType::f32) {
    return core_.alloc(name, Space::vector, {std::max<index>(rows_, 2), std::max<index>(tokens_, 2)}, dtype);
  }
  // Bias, mask and bits of the tile's keys.
  void load(const KeyTile& tile);
  void load_rows(const Tensor& slot, const NdTensor& from, const KeyTile& tile);
  void load_bits(const Tensor& slot, const KeyTile& tile);
  index first_bit(index query, const KeyTile& tile) const;
  void add_slopes(const Tensor& bias, const KeyTile& tile);
  void unpack(const Tensor& to, const Tensor& bytes, const KeyTile& tile);
  void softcap(const Tensor& scores);
  // One more condition: `write` fills a tile of 0 and 1.
  template <class Write> void demand(const Tensor& used, Write&& write);
  void demand_window(const Tensor& used, const KeyTile& tile);

  Core& core_;
  const AttentionCall& problem_;
  const index rows_, tokens_;
  std::optional<TupleRing<3>> loaded_;  // bias, mask, bits
  Tensor seen_, more_, bias_, distance_, hidden_, column_, query_, whole_query_, bound_;
  Tensor places_, shifts_, bytes_, bits_;  // of a packed mask, i32: a row each
  QueryTile unit_{};
  index of_heads_ = 0, of_rows_ = 0;  // what the queries of rows are known for
  Tensor slopes_;
  bool partial_ = false;  // somebody misses a key of the tile
};

// Maxima start here rather than at -inf: what is -inf itself then weighs exp(-inf - lowest) = 0.
inline constexpr float lowest_score = std::numeric_limits<float>::lowest();

// inverse = 1 / total, or 0 where nothing was seen; `none` is a column of their rows, `zero` one element.
void inverse_of(Core& core, const Tensor& inverse, const Tensor& total, const Tensor& none, const Tensor& zero);

class OnlineSoftmax {
 public:
  // Scores of f32, or of f16; maxima and totals are f32. A positive scale of scores not yet applied: exp(scale (s -
  // m)).
  OnlineSoftmax(Core& core, index rows, DType scores = DType::f32, float scale = 1);
  void begin();  // of the rows' first tile
  // A tile: s' of some rows, from `first` on, in `weights`, which may be s; s is overwritten. Then their sums; then,
  // once for all rows of it, alpha. The caller has a chain of the vector unit open.
  void weigh(const Tensor& s, const Tensor& weights, index first);
  void sum(const Tensor& weights, index first);
  // Sums of f16 weights that nobody needs any more, of tiles of `columns`: folded twice, column j onto j + half.
  void fold_and_sum(const Tensor& weights, index first, index columns);
  void finish(const Tensor& alpha);
  // All of it for all rows at once, in place.
  void tile(const Tensor& s, const Tensor& alpha);
  const Tensor& maximum() const { return maximum_; }
  const Tensor& total() const { return total_; }

 private:
  Core& core_;
  const float scale_;
  Tensor maximum_, total_, fresh_maximum_, tile_maximum_, tile_total_;
};

}  // namespace inlay::npu
