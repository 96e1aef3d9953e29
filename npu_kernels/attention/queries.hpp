// q of a unit, made by the vector units for the matrix unit while they work on the unit before it. In f32 or bf16 each
// row is divided by its largest, f = max |q|,
//
//   high = f16(q / f * below_one)    low = f16(q / f - high)    factor = f * scale
//
// 2^-21 of the largest is left out, and nothing overflows, whatever the size of q. For scores in f16 it is
// f16(scale * q), and the factor 1. What is f16 already is taken as it is where it can be loaded so.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "npu_kernels/attention/transport.hpp"

namespace inlay::npu {

class Queries {
 public:
  Queries(Core& core, const AttentionCall& problem, const AttentionPlan& plan);
  // The vector units' part, block by block between their other work: begin, advance for a block, finish with those
  // that are left. Two units may be made that no product has read.
  void begin(const TileWork& work);
  void advance();
  void finish();
  // How it comes to the matrix unit: [pieces * rows, dim].
  void load(const TileWork& work);
  Tensor wait();
  void release();
  // Of a unit's rows, all of this vector unit's; none where scores are scaled alike.
  bool has_factors() const { return halves_; }
  Tensor factor(const TileWork& work) const { return factors_[slot_of(work)].row_slice(0, work.mine.count); }

 private:
  static constexpr std::size_t ahead = 3;  // units whose factors are kept
  static std::size_t slot_of(const TileWork& work) { return static_cast<std::size_t>(work.turn) % ahead; }
  void load_block();
  void load_rows(const Tensor& slot, const QueryTile& unit);
  // Rows of q, and of `pieces`, in f16.
  void convert(const Tensor& q, const std::array<Tensor, 2>& pieces, const Tensor& factor);

  Core& core_;
  const AttentionCall& problem_;
  const AttentionPlan& plan_;
  const index rows_, dim_;
  const bool direct_, halves_;
  std::optional<Ring> staged_;  // of q as it is
  std::optional<ToLeft> made_;  // else: of what is made
  std::optional<Ring> in_;      // from these rows
  Tensor wide_, work_, peak_, inverse_;
  std::array<Tensor, ahead> factors_;
  const TileWork* making_ = nullptr;  // the unit that is being made
  std::vector<RowBlock> blocks_;
  std::size_t loaded_ = 0, done_ = 0;
};

}  // namespace inlay::npu
