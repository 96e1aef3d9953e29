// Which batch sizes to capture plans of, on a device that bounds how many it holds.
//
//   lengths   1 ....... 7 ...... 16 ................ 60        how many tokens a step has
//   buckets            8        16        32        64         a step runs in the next one up, padded
//                                                      | eager behind the largest
//
// A plan of a bucket takes streams: Ascend has 2048 of them, and a plan in pieces takes one for each of its layers and
// one more, times the communication domains. So the more layers, the fewer buckets; `ascend_max_buckets` says how many,
// and vLLM-Ascend takes that many of vLLM's sizes, evenly. `best_buckets` takes those that pad least for lengths that
// were seen: by dynamic programming, exactly.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay::exec {

// How many steps had this many tokens.
struct LengthCount {
  index length, count;

  bool operator==(const LengthCount&) const = default;
};

// A line each: a length, and how many steps had it (1 where that is left out). "#" begins a comment. Lengths may come
// in any order and again. Errors name the line, what it has and what it must have.
Expected<std::vector<LengthCount>> parse_lengths(std::string_view text);

// Of a plan whose attention runs between what is captured (Plans::piecewise).
constexpr index pieces_of(index layers) { return layers + 1; }

// What the devices of a model hold of it: vLLM-Ascend's update_aclgraph_sizes (vllm_ascend/utils.py), for dense models
// without a draft model.
struct AscendPlanLimits {
  index layers = 0;
  index domains = 0;      // of communication: 1 if there are ranks of tensors, 1 more if there are ranks of data
  bool unfolded = false;  // HCCL_OP_EXPANSION_MODE=AIV
  index streams = 1800;   // of 2048, less those that are kept for others
};

//   FFTS+   (streams - 40 domains) / (layers + 1) / (1 + 2 domains)
//   AIV     (streams - (1 + domains) (layers + 1)) / (layers + 1) / (1 + domains)
//
// rounded down, and at least 0.
index ascend_max_buckets(const AscendPlanLimits& limits);

// 1, 2, 4, then by 8 to 248, then by 16, to `largest`: vLLM's.
std::vector<index> default_buckets(index largest = 512);

// `count` of `sizes`, evenly, first and last kept; all of them where there are no more. Of one the last is kept.
std::vector<index> sampled_buckets(std::span<const index> sizes, index count);

// At most `count` sizes that pad least, over the lengths up to `largest`, the longest of which is one of them.
std::vector<index> best_buckets(std::span<const LengthCount> lengths, index count, index largest);

struct BucketUse {
  index steps = 0, eager_steps = 0;
  index tokens = 0;  // of those that replay
  index padding = 0;

  double eager_share() const { return steps == 0 ? 0 : static_cast<double>(eager_steps) / static_cast<double>(steps); }
  double padded_share() const {
    return tokens + padding == 0 ? 0 : static_cast<double>(padding) / static_cast<double>(tokens + padding);
  }
};

// A step runs in the smallest bucket that holds it; eagerly, where there is none. Buckets ascend.
BucketUse use_of(std::span<const index> buckets, std::span<const LengthCount> lengths);

}  // namespace inlay::exec
