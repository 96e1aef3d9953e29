#include <inlay/exec/split/place_steps.hpp>

#include <limits>
#include <utility>

#include <inlay/exec/split/place_line.hpp>
#include <inlay/exec/split/step_work.hpp>

namespace inlay::exec {

Expected<std::vector<std::size_t>> place_steps(const StepGraph& graph, const DeviceList& list, std::size_t first,
                                               std::size_t second,
                                               const std::function<bool(const GraphStep&)>& supports) {
  constexpr double never = std::numeric_limits<double>::infinity();
  for (const std::size_t device : {first, second})
    if (!list.devices[device].profile)
      return failure(invalid("the device " + list.devices[device].name +
                             " has rates; it must have a profile to place every step (inlay profile)"));
  PlacementProblem problem{.devices = 2, .sync_us = {0, list.sync_us, list.sync_us, 0}, .us_a_byte = list.us_a_byte};
  double written = 0;
  for (const GraphStep& step : graph.steps()) {
    const auto first_us = list.devices[first].profile->us(step), second_us = list.devices[second].profile->us(step);
    const double other = second_us && supports(step) ? *second_us : never;
    problem.us.push_back(first_us ? *first_us : other < never ? never : 0);
    problem.us.push_back(other);
    problem.bytes.push_back(std::exchange(written, written_bytes(step)));
  }
  auto placed = place_line(problem);
  if (!placed) return failure(std::move(placed.error()));
  return std::move(placed->device);
}

}  // namespace inlay::exec
