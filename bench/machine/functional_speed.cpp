// Functional mode against checked mode: the worked f16 GEMM on one thread, the same product in both.
// INLAY_BENCH_SHORT=1: a small product, once.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "measure/timing.hpp"
#include "npu_kernels/linear/gemm.hpp"
#include "npu_kernels/machine/run/machine.hpp"

namespace inlay::npu {
namespace {

const index extent = measure::short_run() ? 128 : 512;

// The least processor time of some runs: the other programs of a shared machine do not count, and disturb it little.
template <class Run> double seconds(GlobalMemory& machine, int runs, Run&& run) {
  std::vector<f16> a(static_cast<std::size_t>(extent * extent)), b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = f16(static_cast<float>(i * 37 % 101) / 50 - 1);
    b[i] = f16(static_cast<float>(i * 53 % 103) / 51 - 1);
  }
  std::vector<float> c(a.size());
  const Shape shape{extent, extent};
  const GemmOperands op{machine.global("a", std::span(std::as_const(a)), shape),
                        machine.global("b", std::span(std::as_const(b)), shape),
                        machine.global("c", std::span(c), shape, Use::out)};
  if (measure::short_run()) runs = 1;
  double best = 0;
  for (int i = 0; i < runs; ++i) {
    const std::clock_t begin = std::clock();
    run(op);
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
    const auto device = load_device(std::string(INLAY_SOURCE_DIR) + "/devices/" + name + ".json");
    if (!device) return 1;
    Machine checked(*device, {.cores = 1});
    FunctionalMachine functional(*device, 1);
    bool clean = true;
    const double slow = seconds(checked, 2, [&](const GemmOperands& op) {
      clean = checked.run([&](Core& core) { gemm(core, op); }).ok() && clean;
    });
    const double fast = seconds(functional, 10, [&](const GemmOperands& op) {
      clean = functional.run([&](Core& core) { gemm(core, op); }).empty() && clean;
    });
    if (!clean) return 1;
    const double operations = 2.0 * static_cast<double>(extent * extent * extent) * 1e-9;
    std::printf("%-18s functional %6.1f GFLOP/s, checked %6.3f GFLOP/s, %5.0f times\n", name, operations / fast,
                operations / slow, slow / fast);
  }
  return 0;
}
