// Figures of a device from logs of it, and the description that has them (docs/npu_fit.md). A figure that a log does
// not determine stays as it was, and the reason is told.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include <inlay/core/parallel.hpp>

#include "inlay/core/status.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/fit/log.hpp"

namespace inlay::npu {

// The true value lies between value * low and value * high: two standard errors, or what the log's samples span.
struct FittedFigure {
  std::string pointer;  // of the figure in the description
  double before = 0, value = 0, low = 1, high = 1;
  std::string from;  // log and samples
};

struct OpenFigure {
  std::string pointer, why;
};

struct Fit {
  std::vector<FittedFigure> figures;  // one for each pointer
  std::vector<OpenFigure> open;
};

// The clock, and bandwidths of paths that the description has below what a kernel was seen to move.
Fit fit_rates(const Device& device, std::span<const PipeRates> logs);

// Heads and slopes of vector operations; latency, bandwidth and half_burst of paths and what their changes of layout
// cost. Samples of all logs are taken together.
Fit fit_instructions(const Device& device, std::span<const InstructionLog> logs);

// A program's log as it was made for the description, and what it was measured to take, each time.
struct TimedProgram {
  EventLog log;
  std::vector<double> us;
};

// Whatever figures the times of these programs depend on and determine. `name` is the file's. Errors: those of
// parse_device and time_events.
tl::expected<Fit, Status> fit_times(std::string_view description, std::span<const TimedProgram> programs,
                                    const std::string& name, const Parallel& parallel = serial());

// The description with these figures, each with a source of its own: measured, the log, the range. Its version is the
// next one. Errors: those of parse_device.
tl::expected<std::string, Status> with_figures(std::string_view description, std::span<const FittedFigure> figures);

// `before` with what `more` tells: of figures that both tell the later ones.
void merge(Fit& before, Fit more);

}  // namespace inlay::npu
