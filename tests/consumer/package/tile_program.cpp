// An author of tile programs: the installed machine runs one checked, on an installed description.
#include <cstdio>
#include <vector>

#include "npu_kernels/machine/check/checker.hpp"
#include "npu_kernels/machine/run/machine.hpp"
#include "npu_kernels/machine/time/timing.hpp"
#include "npu_kernels/rms_norm.hpp"

int run_tile_program() {
  using namespace inlay::npu;
  const auto device = load_device(DEVICES "/ascend-a2-like.json");
  if (!device) return std::printf("%s\n", device.error().message().data()), 1;
  const std::vector<float> x(64 * 128, 2.0f), weight(128, 3.0f);
  std::vector<float> y(x.size());
  Machine machine(*device);
  const RmsNormOperands op{machine.global("x", std::span(x), {64, 128}),
                           machine.global("weight", std::span(weight), {1, 128}),
                           machine.global("y", std::span(y), {64, 128}, Use::out)};
  const Outcome outcome = machine.run([&](Core& core) { rms_norm(core, op); });
  const auto timeline = time_tape(outcome.tape, *device);
  if (!outcome.ok() || !check(outcome.tape, *device).empty() || !timeline || timeline->makespan == 0)
    return std::printf("the tile program is not clean\n"), 1;
  for (const float value : y)
    if (value < 2.999f || value > 3.001f) return std::printf("%g is not 3\n", static_cast<double>(value)), 1;
  return 0;
}
