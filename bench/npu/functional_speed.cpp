// Functional mode against checked mode: a linear layer of f16 on one thread, the same product in both.
// INLAY_BENCH_SHORT=1: a small product, once.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include <inlay/cpu.hpp>

#include "measure/timing.hpp"
#include "npu_kernels/backend/host_product.hpp"
#include "npu_kernels/backend/program.hpp"
#include "shapes/linear.hpp"
#include "shapes/random_tensors.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Linear<Host>&, const Choices&);

namespace {

const index extent = measure::short_run() ? 128 : 512;

// The least processor time of some runs: the other programs of a shared machine do not count, and disturb it little.
template <class Run> double seconds(GlobalMemory& machine, int runs, Run&& run) {
  RandomTensors tensors;
  const Linear<Host> op = LinearShape{.m = extent, .n = extent, .k = extent, .to = DType::f32}.make(tensors);
  const Program made = program(machine, op, {});
  if (measure::short_run()) runs = 1;
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    const std::clock_t begin = std::clock();
    run(made);
    const double taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best = i == 0 ? taken : std::min(best, taken);
  }
  return best;
}

}  // namespace
}  // namespace inlay::npu

int main() {
  using namespace inlay::npu;
  for (const char* name : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/tile_machine/devices/" + name + ".json");
    if (!device) return 1;
    Machine checked(*device, {.cores = 1});
    FunctionalMachine functional(*device, 1, host_product(inlay::Cpu(inlay::serial()).isa()));
    bool clean = true;
    const double slow =
        seconds(checked, 2, [&](const Program& made) { clean = checked.run(made.body, made.launch).ok() && clean; });
    const double fast = seconds(
        functional, 10, [&](const Program& made) { clean = functional.run(made.body, made.launch).empty() && clean; });
    if (!clean) return 1;
    const double operations = 2.0 * static_cast<double>(extent * extent * extent) * 1e-9;
    std::printf("%-18s functional %6.1f GFLOP/s, checked %6.3f GFLOP/s, %5.0f times\n", name, operations / fast,
                operations / slow, slow / fast);
  }
  return 0;
}
