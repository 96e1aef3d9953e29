// Runs a program without data and takes down the verbs of each stream.
#pragma once

#include <functional>
#include <vector>

#include "tile_machine/run/machine.hpp"
#include "tile_machine/run/verb_log.hpp"

namespace inlay::npu {

class RecordingMachine : public GlobalMemory {
 public:
  explicit RecordingMachine(const Device& device) : GlobalMemory(device, 0, false, false) {}
  // What the run itself met: where there is something, the log ends there.
  std::vector<Report> run(const std::function<void(Core&)>& program, Launch launch, VerbLog& into);
};

}  // namespace inlay::npu
