// Who gets how much of a bandwidth that all cores share, global memory's or the L2's: a fluid model. Rates change only
// when a transfer starts or ends; between two changes every transfer moves exactly rate * time.
//
//   max-min, in two steps: the cores share the total, each asking for min(its cap, what its transfers can
//   take alone); then the transfers of a core share what it got. Who asks for less than an equal share
//   gets what it asks; the others get equal parts of the rest.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "tile_machine/time/cost.hpp"

namespace inlay::npu {

inline constexpr Tick never = std::numeric_limits<Tick>::max();

enum class Sharing : std::uint8_t {
  max_min,
  none,        // every transfer at its solo rate: a lower bound of every time
  equal_parts  // a fixed part for every queue, used or not: an upper bound of every time
};

// grant[i] <= demand[i], their sum <= capacity, and no grant can grow but at the cost of a smaller one.
void fill_max_min(std::span<const Rate> demand, Rate capacity, std::span<Rate> grant);

struct BandwidthSample {
  Tick at = 0;
  Rate rate = 0;  // of all transfers together, from `at` on
};

struct Limits {
  double bytes_per_cycle = 0, bytes_per_cycle_core = 0;
};

class BandwidthShare {
 public:
  // Lanes are numbered core by core (lanes.hpp), `streams` as the log's. A lane has at most one transfer whose bytes
  // move.
  BandwidthShare(const Device& device, const std::vector<std::uint8_t>& streams, const Limits& limits,
                 std::uint32_t cores, Sharing sharing);

  void start(std::uint32_t lane, std::uint64_t bytes, Rate solo, Tick now);
  Tick next_end() const { return next_end_; }
  // Removes the transfers that end at `now` and appends their lanes, in ascending order.
  void end(Tick now, std::vector<std::uint32_t>& lanes);
  // Gives new rates if a transfer started or ended. Called when all of this tick's have.
  void share(Tick now);

  const std::vector<BandwidthSample>& samples() const { return samples_; }
  // Integral of the rates over time, each transfer cut at its end: whole bytes, and the rest in 2^-28 byte.
  std::uint64_t moved_bytes() const { return moved_bytes_; }
  Amount moved_rest() const { return moved_rest_; }

 private:
  struct Transfer {
    Amount left = 0;  // at `since`
    Rate solo = 0, rate = 0;
    Tick since = 0, end = never;
  };

  // Of a lane when rates were shared last: what its transfer asked for, and what it got. 0: it had none.
  struct Shared {
    Rate solo = 0, rate = 0;
  };

  void settle(Transfer& transfer, Tick now);
  bool took_over(Tick now);
  void share_anew(Tick now);
  void remember();
  void grant(Transfer& transfer, Rate rate, Tick now);
  void share_max_min(Tick now);

  std::vector<std::uint16_t> core_of_;  // by lane
  Sharing sharing_;
  Rate total_, core_cap_, part_ = 0;
  std::vector<Transfer> transfers_;   // by lane
  std::vector<Shared> shared_;        // by lane
  std::vector<std::uint32_t> began_;  // since rates were shared last: lanes whose transfer began, or ended
  std::vector<std::uint32_t> ended_;
  std::vector<std::uint32_t> active_;  // lanes, ascending
  std::vector<Rate> demand_, granted_, solo_, share_;
  std::vector<BandwidthSample> samples_;
  std::uint64_t moved_bytes_ = 0;
  Amount moved_rest_ = 0;
  Tick next_end_ = never;
  bool changed_ = false;
};

}  // namespace inlay::npu
