// The tile machine. Machine runs a tile program checked: queues, flags, poison, reports, a log.
// FunctionalMachine runs the same program at once, verb by verb, for its results alone; its bits agree.
//
//   Machine machine(device);
//   const Tensor a = machine.global("a", std::span(weights), {m, k});
//   const Outcome outcome = machine.run([&](auto& core) { gemm(core, op); });
//   outcome.reports, outcome.log
//
// Executed paths only: a run proves nothing about a branch that it did not take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tile_machine/arithmetic/host_product.hpp"
#include "tile_machine/arithmetic/tiles.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"
#include "tile_machine/run/core.hpp"
#include "tile_machine/run/global_memory.hpp"
#include "tile_machine/run/mutation.hpp"
#include "tile_machine/run/replay_log.hpp"
#include "tile_machine/run/scheduler.hpp"
#include "tile_machine/run/streams.hpp"

namespace inlay::npu {

struct Options {
  Policy policy = Policy::issue_order;
  std::uint64_t seed = 1;   // of Policy::random
  std::uint32_t cores = 0;  // of the device that run the program; 0: all
  bool record = true;       // keep a log
  // false: nothing that stands in a queue is carried out. The log, and so its times, are the same unless
  // the program reads back (scalar_read) what it computed; results are not, nor is it seen what is read before
  // it is written (the checker finds that on the log). Tensors of global memory need no data then.
  bool compute = true;
  // false: no memory has bytes, only addresses; nothing is computed and no shadow is kept. scalar_read reads what
  // the caller gave (a table of blocks), and zero from all else.
  bool data = true;
  // A program that has more stops there. An entry takes 104 bytes and 48 for each place that it touches, of which it
  // has two or three: 8 GB.
  std::size_t entries = std::size_t{1} << 25;
  // false: the log has footprints of global memory alone. Times need no others, the checker does.
  bool local_footprints = true;
  std::optional<Mutation> mutation = std::nullopt;
};

struct Outcome {
  EventLog log;
  std::vector<Report> reports;  // what the run itself met; the checker reads the log for the rest
  std::vector<MutationPoint> points;
  bool ok() const { return reports.empty(); }
};

class Machine : public GlobalMemory {
 public:
  explicit Machine(const Device& device, Options options = {});
  // The program runs once on every stream of every core. A machine can run more than once; scratch starts empty
  // each time.
  Outcome run(const std::function<void(Core&)>& program, Launch launch = {});

 private:
  Options options_;
};

class FunctionalMachine : public GlobalMemory {
 public:
  // `product`: the host's, for the matrix unit; without one the machine's own loop does it.
  explicit FunctionalMachine(const Device& device, std::uint32_t cores = 0, tiles::HostProduct product = {})
      : FunctionalMachine(device, cores, product, true) {}
  // One whose memories have addresses and no bytes: run() tells what a run with data would report, in the time that its
  // verbs take without their arithmetic. A scalar_read gives what the caller's lists have, and zero of all else. Of a
  // program of more than 2^25 verbs the first ones are looked at.
  static FunctionalMachine without_data(const Device& device, std::uint32_t cores = 0) {
    return FunctionalMachine(device, cores, {}, false);
  }
  // Only capacity, alignment, illegal_path, use_after_release and deadlocks between cores are noticed. `replay`: what
  // is done is kept there; of one that has been replayed in part, only the rest is done.
  std::vector<Report> run(const std::function<void(Core&)>& program, Launch launch = {}, ReplayLog* replay = nullptr);

 private:
  FunctionalMachine(const Device& device, std::uint32_t cores, tiles::HostProduct product, bool data);

  const bool data_;
  Streams streams_;
  tiles::HostProduct product_;
  tiles::HostBuffers host_;
};

}  // namespace inlay::npu
