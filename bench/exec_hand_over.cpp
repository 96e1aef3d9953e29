// What a step waits whose input another device wrote: steps of some length by turns on two devices that compute
// nothing, each of which is woken, or sleeps until shortly before its input is expected and then polls.
//
// INLAY_BENCH_SHORT=1: few of them.
#include <chrono>
#include <cstdio>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/ops/add.hpp>

#include "measure/timing.hpp"

namespace inlay::exec {
namespace {

int report() {
  const index steps = measure::short_run() ? 10 : 200;
  float memory[4] = {};
  const View<2> cells(memory, {2, 2});
  StepGraph graph;
  GraphRecorder<> record(graph);
  for (index i = 0; i < steps; ++i) record(Add<Host>{.a = cells, .b = cells, .y = cells});
  std::vector<std::size_t> placement;
  for (index i = 0; i < steps; ++i) placement.push_back(static_cast<std::size_t>(i % 2));
  const std::vector<std::size_t> one_device(placement.size(), 0);  // what a step takes besides, wherever it runs
  const Edges line = Edges::in_order(steps);
  for (const double us : {0.0, 20.0, 100.0, 500.0, 2000.0}) {
    const StepCompute busy = [us](const GraphStep&) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
      while (std::chrono::steady_clock::now() < until) {
      }
      return Status();
    };
    CpuDevice one({.name = "one"}, busy), other({.name = "other"}, busy);
    Device* const devices[] = {&one, &other};
    DeviceThreads threads(devices);
    std::vector<double> took[3];
    for (int turn = 0; turn < (measure::short_run() ? 3 : 33); ++turn) {
      DeviceTimeline timeline;
      const Waiting waiting = turn % 3 == 1 ? Waiting::fast : Waiting::woken;
      const Status status = run_steps({.graph = graph,
                                       .edges = line,
                                       .devices = devices,
                                       .placement = turn % 3 == 2 ? one_device : placement,
                                       .waiting = waiting},
                                      threads, timeline);
      if (!status.ok()) return 1;
      took[turn % 3].push_back(timeline.makespan_us() / static_cast<double>(steps) - us);
    }
    const double alone = measure::median(took[2]);
    std::printf(
        "steps of %6.0f us: a hand-over takes %6.1f us where the system wakes, %6.1f us where it is polled for\n", us,
        measure::median(took[0]) - alone, measure::median(took[1]) - alone);
  }
  return 0;
}

}  // namespace
}  // namespace inlay::exec

int main() { return inlay::exec::report(); }
