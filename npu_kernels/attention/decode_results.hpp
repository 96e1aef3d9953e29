// What attention leaves of an item: rows of `out`, or of one of several splits what merge_splits takes.
#pragma once

#include <optional>

#include "npu_kernels/attention/decode_tiles.hpp"
#include "npu_kernels/attention/handover.hpp"

namespace inlay::npu {

class DecodeResults {
 public:
  DecodeResults(Core& core, const DecodeOperands& op, RowRange mine);
  // The item of `tile`: sum / total, or sum, total and maximum as they are. The sum is overwritten.
  // The caller has a chain of the vector unit open.
  void store(const TokenTile& tile, const Tensor& sum, const Tensor& total, const Tensor& maximum);

 private:
  void store_statistic(Ring& ring, const Tensor& of_item, const Tensor& all, index row);

  Core& core_;
  const DecodeOperands& op_;
  RowRange mine_;
  Ring result_;
  std::optional<Ring> totals_, maxima_;  // of splits
};

}  // namespace inlay::npu
