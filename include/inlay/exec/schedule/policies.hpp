// Which of the steps that are ready on a device is next.
//
//   chunk_order      the earliest chunk's, in the order of the program
//   fifo             the one that has been ready for longest
//   longest_unlock   C of mllm-NPU (Xu et al., 2024): what a step would make ready at once, in microseconds; more is
//                    better on a CPU or GPU, less on an NPU, which works on while the others prepare its next steps
//   upward_rank      the longest path to an end (HEFT, Topcuoglu et al., 2002)
//
// Of equals the first in the program is next.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <inlay/exec/device/device.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

enum class Policy : unsigned char { chunk_order, fifo, longest_unlock, upward_rank };
inline constexpr Policy policies[] = {Policy::chunk_order, Policy::fifo, Policy::longest_unlock, Policy::upward_rank};

constexpr std::string_view name(Policy policy) {
  constexpr std::string_view names[] = {"chunk order", "fifo", "longest unlock", "upward rank"};
  return names[static_cast<std::size_t>(policy)];
}

// A step that waits for none.
struct Ready {
  index step;
  index since;  // how many were ready before it
};

class Chooser {
 public:
  // `us`: what each step is expected to take where it is placed. All outlive the chooser.
  Chooser(Policy policy, const StepGraph& graph, const Edges& edges, std::span<const double> us);

  // Which of the steps that are ready on a device of this kind; `waits`: for how many each one waits.
  std::size_t choose(std::span<const Ready> ready, DeviceKind kind, std::span<const std::size_t> waits) const;

 private:
  double unlocked_us(index step, std::span<const std::size_t> waits) const;

  Policy policy_;
  const StepGraph& graph_;
  const Edges& edges_;
  std::span<const double> us_;
  std::vector<double> ranks_;
};

}  // namespace inlay::exec
