// Which of a list's devices computes each step of a recorded line, by its dynamic programming (place_line.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/split/device_list.hpp>

namespace inlay::exec {

// Between two of them. `supports(step)`: does the second compute it? What a device's profile lacks it does not compute,
// and what no profile has is the first one's. Errors: a device without a profile, which rates of unknown steps cannot
// place.
Expected<std::vector<std::size_t>> place_steps(const StepGraph& graph, const DeviceList& list, std::size_t first,
                                               std::size_t second,
                                               const std::function<bool(const GraphStep&)>& supports);

}  // namespace inlay::exec
