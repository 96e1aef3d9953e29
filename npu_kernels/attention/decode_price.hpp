// Which plan of decode attention, and in how many splits, is the quickest for a shape on a device: each candidate's
// tape is made without data and timed.
#pragma once

#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"
#include "npu_kernels/attention/decode_attention.hpp"

namespace inlay::npu {

struct DecodeChoice {
  DecodePlan plan;
  index splits;
  double cycles;
};

// Of `shape` its types and extents are read; its plan and splits are not. The cheapest comes first; those whose tiles
// do not fit the memories are left out, an error if none does.
tl::expected<std::vector<DecodeChoice>, Status> price_decode(const Device& device, const DecodeOperands& shape);

}  // namespace inlay::npu
