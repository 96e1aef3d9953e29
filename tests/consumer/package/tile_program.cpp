// An author of tile programs: the installed machine runs one checked, on an installed description.
#include <cstdio>
#include <vector>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/time/timing.hpp"

namespace {

using namespace inlay::npu;

// y = 1.5 x, a block of rows after the other.
void scale_rows(Core& core, const Tensor& x, const Tensor& y) {
  constexpr inlay::index block = 4;
  Ring in = core.ring("x", Space::vector, {block, x.columns()}, x.dtype, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("y", Space::vector, {block, x.columns()}, y.dtype, {2, Pipe::vector, Pipe::store});
  for (inlay::index row = core.vector_worker() * block; row < x.rows(); row += core.vector_workers() * block) {
    core.copy(in.acquire(), x.row_slice(row, block));
    in.commit();
    core.vscalar(VectorOp::mul, out.acquire(), in.wait(), 1.5f);
    in.release();
    out.commit();
    core.copy(y.row_slice(row, block), out.wait());
    out.release();
  }
}

}  // namespace

int run_tile_program() {
  const auto device = load_device(DEVICES "/ascend-a2-like.json");
  if (!device) return std::printf("%s\n", device.error().message().data()), 1;
  const std::vector<float> x(64 * 128, 2.0f);
  std::vector<float> y(x.size());
  Machine machine(*device);
  const Tensor from = machine.global("x", std::span(x), {64, 128});
  const Tensor to = machine.global("y", std::span(y), {64, 128}, Use::out);
  const Outcome outcome = machine.run([&](Core& core) { scale_rows(core, from, to); });
  const auto timeline = time_events(outcome.log, *device);
  if (!outcome.ok() || !check(outcome.log, *device).empty() || !timeline || timeline->makespan == 0)
    return std::printf("the tile program is not clean\n"), 1;
  for (const float value : y)
    if (value != 3) return std::printf("%g is not 3\n", static_cast<double>(value)), 1;
  return 0;
}
