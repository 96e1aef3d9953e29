// A model on two devices at once, the CPU and another one that looks at host memory too: `run` of Session::make.
//
//   auto session = Session::make(config, weights, SideBySide<ClOverHost>{Cpu(), ClOverHost(std::move(*cl))}, {});
//
// Each pass is recorded once for its shapes, and so are several chunks of a prompt at once: a step begins when all that
// it waits for is done, in whichever chunk (docs/devices.md).
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <inlay/cpu.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/device_list.hpp>

namespace inlay::exec {

template <class Second> struct SideBySide {
  Cpu cpu;
  Second second;
  std::string place = {};                  // Placement's words; empty: the second device's linears
  std::string split = {};                  // SplitWords's: how the second device's linears are cut between both
  std::optional<DeviceList> devices = {};  // in place of them: what a solver makes of these two
  bool outliers_apart = false;  // those of int8 linears with static scales are the CPU's, beside the products
  index chunks = 4;             // of a prompt, under way at once: docs/devices.md has what fewer and others cost
  Policy policy = Policy::longest_unlock;
  Waiting waiting = Waiting::woken;
  double watchdog_seconds = std::numeric_limits<double>::infinity();  // of a step of the second device

  Parallel parallel() const { return cpu.parallel(); }
};

// Of those that this build has: ClOverHost, Npu. A pass in which the second device fails, or is not done in the time of
// its watchdog, is a Status that names device, step and operator; the CPU computes those behind it alone. What the
// second device declines the CPU computes (Engine::fallbacks).
template <class Second>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, SideBySide<Second> run,
                                              const EngineOptions& options);

}  // namespace inlay::exec
