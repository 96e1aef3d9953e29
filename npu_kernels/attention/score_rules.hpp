// From scaled products to what the softmax takes: bias, softcap and masks of a tile [rows, keys] (core/attention.hpp).
//
//   row r is query r / heads of head r % heads of the unit
//   bias[r, c]   pse + slope[head] * (key - position)
//   seen[r, c]   first[r] <= c < end[r], not masked, its bit set, its bias not -inf
#pragma once

#include <optional>

#include "npu_kernels/attention/problem.hpp"
#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

class ScoreRules {
 public:
  ScoreRules(Core& core, const AttentionProblem& problem, index rows, index tokens);
  // Of the unit whose tiles follow; `slopes` are those of its rows.
  void begin(const WorkUnit& unit, const Tensor& slopes);
  // Of scores without key_factor and scale in them already. Is there a key that a row does not see? Its score is -inf
  // then, and seen() says which.
  bool apply(const Tensor& scores, const KeyTile& tile);
  Tensor seen(index row, index count) const { return seen_.slice(row, 1, 0, count).reshape({count, 1}); }

 private:
  bool biased() const { return problem_.bias.present() || problem_.slopes.present(); }
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
  const AttentionProblem& problem_;
  const index rows_, tokens_;
  std::optional<TupleRing<3>> loaded_;  // bias, mask, bits
  Tensor seen_, more_, bias_, distance_, hidden_, column_, query_, whole_query_, bound_;
  Tensor places_, shifts_, bytes_, bits_;  // of a packed mask, i32: a row each
  WorkUnit unit_{};
  Tensor slopes_;
  bool partial_ = false;  // somebody misses a key of the tile
};

}  // namespace inlay::npu
