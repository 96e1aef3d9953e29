// Roofline of a run: for each resource the least cycles that its work takes there, whatever the order.
//
//   a transfer   bytes at the path's peak: runs of any length, no latency (and no more than a core's share
//                of global memory)
//   a product    the matrix unit's cycles for its shape (an array's fill and drain included), no head
//   a vector op  slope * rows of lanes, no head
//   global memory  all bytes at the device's bandwidth; a core's bytes at the core's
//
// The bound of the run is the largest; makespan >= bound. Its share, bound / makespan, says how well the program
// keeps its own bottleneck at work; it rewards waste. What a program is measured by is the share of the problem's
// bound (device/problem.hpp), which no program of this operator can beat:
//   max(bytes / bandwidth of global memory, operations / peak of the matrix unit) / makespan
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

struct Bound {
  std::string resource;          // a queue's name, "global memory" or "global memory, one core"
  bool dma = false;              // it only moves bytes
  double cycles = 0;             // of the busiest core
  std::uint64_t bytes = 0;       // moved, all cores
  std::uint64_t operations = 0;  // matrix: 2 m n k; vector: elements; all cores
  double busy = 0;               // cycles that the busiest core's pipe really worked
};

struct Roofline {
  std::vector<Bound> bounds;  // queues in the device's order, then global memory
  std::size_t bounding = 0;   // index into bounds: of the largest
  double makespan = 0;        // cycles
  double matrix_peak = 0;     // cycles that the products of the busiest core take with every cell at work
  double problem = 0;         // cycles that the problem takes at least; 0: the program states none

  double share() const { return makespan > 0 ? bounds[bounding].cycles / makespan : 0; }
  double problem_share() const { return makespan > 0 ? problem / makespan : 0; }
  double dma_share() const;  // the largest DMA bound / makespan
  double matrix_share() const { return makespan > 0 ? matrix_peak / makespan : 0; }
};

// Of all cores of the device together.
double min_cycles(const Device& device, const RooflineWork& problem);

Roofline roofline(const EventLog& log, const Device& device, const Timeline& timeline,
                  const RooflineWork& problem = {});

// Several lines: makespan, bounds, stalls of each pipe, critical path, slack. For a person; its form may change.
std::string summary(const EventLog& log, const Device& device, const Timeline& timeline,
                    const RooflineWork& problem = {});

}  // namespace inlay::npu
