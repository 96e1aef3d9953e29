// The estimate of a tile program at given shapes: its cycles by the timing model, without its data. Memories have
// addresses and no bytes, so that a cache of many GiB costs what its log costs.
//
// An estimate is kept under the program's name, its sizes and types, and the device's name and version: asked for
// again, it is there.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <inlay/core/parallel.hpp>

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/estimate/lru_cache.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct EstimateRequest {
  std::string name;
  std::vector<index> sizes;
  std::vector<DType> types;
  RooflineWork problem{};
  // Makes its tensors (GlobalMemory::absent, workspace) and gives what each core runs.
  std::function<std::function<void(Core&)>(GlobalMemory&)> build;
  Launch launch{};
};

inline constexpr std::array<double, 4> dram_shares{1, 0.75, 0.5, 0.25};
// Each is a timing of its own: whoever does not ask for what others' traffic costs waits for one.
enum class DramShares : std::uint8_t { all_of_it, each };

struct Estimate {
  double cycles = 0, us = 0;
  std::uint64_t bytes = 0;   // that global memory moves
  std::string bound;         // the program's own bounding resource
  double problem_share = 0;  // of the makespan that the problem takes at least; 0: it is not stated
  // Where others take the rest of global memory's bandwidth: us, and of the other shares 0 unless each was asked for.
  std::array<double, dram_shares.size()> us_at_share{};
};

class CostCache {
 public:
  static constexpr std::size_t most = 4096;  // that are kept

  // Errors: what the program reported, or what time_events refused.
  tl::expected<Estimate, Status> of(const Device& device, const EstimateRequest& program);
  std::size_t known() const;

 private:
  mutable std::mutex mutex_;
  LruCache<Estimate> known_;
};

// Without a memory of earlier ones.
tl::expected<Estimate, Status> estimate(const Device& device, const EstimateRequest& program,
                                        DramShares shares = DramShares::each, const Parallel& parallel = serial());
// The log that it is read from.
tl::expected<EventLog, Status> events_of(const Device& device, const EstimateRequest& program);

}  // namespace inlay::npu
