// A prompt in chunks on the CPU and OpenCL, one after the other on each and both at once: what each step takes is
// measured, and what a plan was expected to take by that stands beside what it took. A core each: run it with
// POCL_MAX_PTHREAD_COUNT=1.
//
//   bench_exec_devices_at_once [FILE]      the timeline of the last run, for ui.perfetto.dev
//
// INLAY_BENCH_SHORT=1: a small model.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/cl_over_host.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>
#include <inlay/exec/time/trace.hpp>
#include <inlay/model/random_weights.hpp>

#include "measure/timing.hpp"

namespace inlay::exec {
namespace {

ModelConfig shape() {
  ModelConfig config;
  config.architecture = "qwen2";
  config.layers = measure::short_run() ? 1 : 6;
  config.dim = measure::short_run() ? 128 : 896;
  config.heads = 14;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.hidden = measure::short_run() ? 256 : 2432;
  config.vocab = 1024;
  config.context = 4096;
  config.ropes[0].dim = 64;
  return config;
}

// What devices are said to take that were measured.
struct Estimate {
  explicit Estimate(const CpuDevice& cpu, const CpuDevice& cl) : of_cpu(cpu.measured()), of_cl(cl.measured()) {}
  Profile of_cpu, of_cl;
  SimDevice cpu{{.name = "cpu"}, {}, time_of(of_cpu)}, cl{{.name = "cl", .kind = DeviceKind::gpu}, {}, time_of(of_cl)};
};

int report(const char* trace) {
  const auto fails = [](const Status& status) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  };
  const index chunk = measure::short_run() ? 8 : 64, chunks = measure::short_run() ? 2 : 4;
  auto weights = random_weights(shape(), "w4a16", Cpu().parallel());
  if (!weights) return fails(weights.error());
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(chunk * chunks), 1);
  const auto recorded = RecordedPrompt<Cpu, ClOverHost>::record(shape(), std::move(*weights), ids, chunk);
  if (!recorded) return fails(recorded.error());
  auto& prompt = **recorded;
  Arena arena(prompt.graph().accesses(), prompt.kept());
  const Edges edges = Edges::of(arena.apart());
  arena.place(edges);
  HostTensors memory;
  View<1> bytes;
  if (Status status = take(memory, DType::i8, {static_cast<index>(arena.bytes())}, bytes); !status.ok())
    return fails(status);
  arena.move(prompt.graph(), static_cast<std::byte*>(bytes.data));

  auto cl = Cl::make();
  if (!cl) return fails(cl.error());
  ClOverHost over(std::move(*cl));
  if (Status status = over.share(prompt.graph(), [](std::size_t) { return true; }); !status.ok()) return fails(status);
  StepRunner on_cl(std::ref(over));
  const StepCompute by_cpu = computed_by(Cpu(serial()));
  const StepCompute by_cl = [&](const GraphStep& step) { return on_cl.run(step); };

  std::printf("%ld chunks of %ld tokens, %ld steps; one thread of the CPU's beside %s\n", static_cast<long>(chunks),
              static_cast<long>(chunk), static_cast<long>(prompt.graph().size()), over.cl().device().name.c_str());
  const std::pair<const char*, std::function<bool(const GraphStep&)>> placements[] = {
      {"all on the cpu", [](const GraphStep&) { return false; }},
      {"all on cl", [](const GraphStep&) { return true; }},
      {"linears on cl", [](const GraphStep& step) { return step.name.starts_with("linear"); }},
      {"a half of the layers on cl", [](const GraphStep& step) { return step.layer >= shape().layers / 2; }}};
  DeviceTimeline timeline;
  for (const auto& [what, is_on_cl] : placements) {
    std::vector<std::size_t> placement;
    for (const GraphStep& step : prompt.graph().steps()) placement.push_back(is_on_cl(step));
    const auto run = [&](CpuDevice& first, CpuDevice& second) {
      Device* const devices[] = {&first, &second};
      DeviceThreads threads(devices);
      return run_steps({.graph = prompt.graph(), .edges = edges, .devices = devices, .placement = placement}, threads,
                       timeline);
    };
    CpuDevice cpu({.name = "cpu"}, by_cpu), gpu({.name = "cl", .kind = DeviceKind::gpu}, by_cl);
    {
      CpuDevice first({.name = "cpu"}, by_cpu), second({.name = "cl", .kind = DeviceKind::gpu}, by_cl);
      if (Status status = run(first, second); !status.ok()) return fails(status);  // builds kernels
    }
    // What is measured for the estimate and what stands beside it, by turns: the machine's speed changes meanwhile.
    const int turns = measure::short_run() ? 1 : 9;
    std::vector<double> took;
    for (int i = 0; i < turns; ++i) {
      if (Status status = run(cpu, gpu); !status.ok()) return fails(status);
      CpuDevice unmeasured({.name = "cpu"}, by_cpu), beside({.name = "cl", .kind = DeviceKind::gpu}, by_cl);
      if (Status status = run(unmeasured, beside); !status.ok()) return fails(status);
      took.push_back(timeline.makespan_us());
    }
    Estimate estimate(cpu, gpu);
    DeviceTimeline planned;
    Device* const expected[] = {&estimate.cpu, &estimate.cl};
    if (Status status =
            run_steps({.graph = prompt.graph(), .edges = edges, .devices = expected, .placement = placement}, planned);
        !status.ok())
      return fails(status);
    const double estimated = planned.makespan_us();
    std::printf(
        "  %-27s estimated %8.2f ms, took %8.2f ms (%8.2f to %8.2f): %+5.1f%%   waits: cpu %4.1f%%, cl %4.1f%%\n", what,
        estimated / 1e3, measure::median(took) / 1e3, *std::ranges::min_element(took) / 1e3,
        *std::ranges::max_element(took) / 1e3, 100 * (estimated / measure::median(took) - 1),
        100 * timeline.bubble_share(0), 100 * timeline.bubble_share(1));
  }
  if (trace == nullptr) return 0;
  const Status written = write_trace(trace, "a prompt on cpu and cl", timeline, prompt.graph());
  return written.ok() ? 0 : fails(written);
}

}  // namespace
}  // namespace inlay::exec

int main(int argc, char** argv) { return inlay::exec::report(argc > 1 ? argv[1] : nullptr); }
