// The timeline as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.
//
//   process = core, thread = queue of the device
//   slices  = entries; a wait is as long as it waited, and its name is the cause
//   arrows  = flags, from the set to the wait that takes it
//   counters: bandwidth of global memory, and the bytes allocated in each memory of each core
//
// One microsecond of the viewer is one cycle: cycles of a model are not called time.
#pragma once

#include <filesystem>
#include <string>

#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

std::string trace_json(const EventLog& log, const Device& device, const Timeline& timeline);
Status write_trace(const std::filesystem::path& file, const EventLog& log, const Device& device,
                   const Timeline& timeline);

}  // namespace inlay::npu
