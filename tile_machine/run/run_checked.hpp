// A checked run with what stands for a core left open: Machine's, and RecordingMachine's.
#pragma once

#include <functional>

#include "tile_machine/run/checked_core.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

// Makes the core of a stream, which is counted over all cores, and runs the program on it.
using RunStream = std::function<void(CheckedRun&, std::uint32_t stream)>;
Outcome run_checked(const Device& device, Memories& memories, std::uint32_t cores, Launch launch,
                    const Options& options, const RunStream& run_stream);

}  // namespace inlay::npu
