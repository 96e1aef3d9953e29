// A model on two devices at once, the CPU and another one that looks at host memory too: `run` of Session::make.
//
//   auto session = Session::make(config, weights, SideBySide<ClOverHost>{Cpu(), ClOverHost(std::move(*cl))}, {});
//
// Each pass is recorded once for its shapes, and so are several chunks of a prompt at once: a step begins when all that
// it waits for is done, in whichever chunk (docs/devices.md).
#pragma once

#include <memory>
#include <string>

#include <inlay/cpu.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/exec/schedule/policies.hpp>

namespace inlay::exec {

template <class Second> struct SideBySide {
  Cpu cpu;
  Second second;
  std::string place = {};  // Placement's words; empty: the second device's linears
  index chunks = 2;        // of a prompt, under way at once
  Policy policy = Policy::chunk_order;

  Parallel parallel() const { return cpu.parallel(); }
};

// Of those that this build has: ClOverHost, Npu. What the second device declines the CPU computes (Engine::fallbacks).
template <class Second>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, SideBySide<Second> run,
                                              const EngineOptions& options);

}  // namespace inlay::exec
