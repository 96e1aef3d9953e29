#include <inlay/exec/split/place_line.hpp>

#include <limits>
#include <string>

namespace inlay::exec {
namespace {

Status checked(const PlacementProblem& p) {
  const auto wrong = [](const std::string& what) { return Status(StatusCode::invalid_argument, "placement: " + what); };
  const auto sized = [&](const char* name, std::size_t is, std::size_t must) {
    return wrong(std::string(name) + " has " + std::to_string(is) + " numbers; it must have " + std::to_string(must));
  };
  if (p.devices == 0) return wrong("devices is 0; it must be 1 at least");
  if (p.us.size() != p.steps() * p.devices) return sized("us", p.us.size(), p.steps() * p.devices);
  if (p.sync_us.size() != p.devices * p.devices) return sized("sync_us", p.sync_us.size(), p.devices * p.devices);
  const auto all_counts = [&](const char* name, const std::vector<double>& numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!(numbers[i] >= 0))
        return wrong(std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(numbers[i]) +
                     "; it must be 0 or more");
    return Status();
  };
  if (Status status = all_counts("us", p.us); !status.ok()) return status;
  if (Status status = all_counts("bytes", p.bytes); !status.ok()) return status;
  if (Status status = all_counts("sync_us", p.sync_us); !status.ok()) return status;
  if (!(p.us_a_byte >= 0)) return wrong("us_a_byte is " + std::to_string(p.us_a_byte) + "; it must be 0 or more");
  return {};
}

}  // namespace

Expected<PlacedLine> place_line(const PlacementProblem& problem) {
  if (Status status = checked(problem); !status.ok()) return failure(std::move(status));
  constexpr double never = std::numeric_limits<double>::infinity();
  const std::size_t steps = problem.steps(), devices = problem.devices;
  PlacedLine placement;
  if (steps == 0) return placement;
  std::vector<double> until(devices), before;  // what the line takes, if its last step runs there
  std::vector<std::size_t> from(steps * devices, 0);
  for (std::size_t step = 0; step < steps; ++step) {
    before = until;
    bool computed = false;
    for (std::size_t to = 0; to < devices; ++to) {
      double least = step == 0 ? 0 : never;
      for (std::size_t of = 0; step > 0 && of < devices; ++of) {
        const double us = before[of] + problem.edge_us(step, of, to);
        if (us < least) least = us, from[step * devices + to] = of;
      }
      until[to] = least + problem.us_of(step, to);
      computed = computed || until[to] < never;
    }
    if (!computed)
      return failure(StatusCode::unsupported, "placement: no device computes step " + std::to_string(step));
  }
  std::size_t last = 0;
  for (std::size_t device = 1; device < devices; ++device)
    if (until[device] < until[last]) last = device;
  placement.us = until[last];
  placement.device.assign(steps, last);
  for (std::size_t step = steps; --step > 0;)
    placement.device[step - 1] = from[step * devices + placement.device[step]];
  return placement;
}

double line_us(const PlacementProblem& problem, std::span<const std::size_t> device) {
  double us = 0;
  for (std::size_t step = 0; step < device.size(); ++step)
    us += problem.us_of(step, device[step]) + (step == 0 ? 0 : problem.edge_us(step, device[step - 1], device[step]));
  return us;
}

}  // namespace inlay::exec
