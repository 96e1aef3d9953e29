// A prompt in chunks on two devices, simulated: what edges and arenas of a whole model's steps cost to find, and how
// long the prompt takes by each policy. Nothing is computed; times are a roofline of the calibration's rates
// (Snapdragon 8 Gen 3 as HeteroLLM measured it: GPU 1 TFLOPS, NPU 10 TFLOPS, 43.3 GB/s each), linears run on the NPU
// and all else on the GPU.
//
//   bench_exec_devices [FILE]      the timeline of the best policy, for ui.perfetto.dev
//
// INLAY_BENCH_SHORT=1: a small model.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/cpu.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/device_list.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>
#include <inlay/exec/time/trace.hpp>
#include <inlay/model/random_weights.hpp>

#include "measure/timing.hpp"

namespace inlay::exec {
namespace {

// The calibration's; of a submit's 10 to 20 us the middle.
constexpr DeviceRates gpu_rates{.flops_a_us = 1e6, .bytes_a_us = 43.3e3, .submit_us = 15},
    npu_rates{.flops_a_us = 10e6, .bytes_a_us = 43.3e3, .submit_us = 15};

ModelConfig shape() {
  ModelConfig config;
  config.architecture = "qwen2";
  config.layers = measure::short_run() ? 2 : 24;
  config.dim = 896;
  config.heads = 14;
  config.kv_heads = 2;
  config.head_dim = 64;
  config.hidden = measure::short_run() ? 512 : 4864;
  config.vocab = 1024;  // its head is one row's
  config.context = 4096;
  config.ropes[0].dim = 64;
  return config;
}

using Prompt = RecordedPrompt<>;

class Simulation {
 public:
  explicit Simulation(const Prompt& prompt)
      : prompt_(prompt),
        npu_({.name = "npu", .kind = DeviceKind::npu}, {}, time(npu_rates)),
        gpu_({.name = "gpu", .kind = DeviceKind::gpu}, {}, time(gpu_rates)) {}

  DeviceTimeline run(const Edges& edges, Policy policy) { return run(prompt_.graph(), edges, policy); }
  DeviceTimeline run(const StepGraph& graph, const Edges& edges, Policy policy) {
    Device* const devices[] = {&npu_, &gpu_};
    std::vector<std::size_t> placement;
    for (const GraphStep& step : graph.steps()) placement.push_back(step.name.starts_with("linear") ? 0 : 1);
    DeviceTimeline timeline;
    const Status status = run_steps(
        {.graph = graph, .edges = edges, .devices = devices, .placement = placement, .policy = policy}, timeline);
    if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return timeline;
  }

 private:
  StepTime time(const DeviceRates& rates) const {
    return [this, rates](const GraphStep& step) -> Expected<double> {
      const StepWork work = prompt_.work(step);
      return rates.us(work.flops, work.bytes);
    };
  }

  const Prompt& prompt_;
  SimDevice npu_, gpu_;
};

// So many chunks at once, each of these groups to its end before the next begins, as engines have them.
void print_groups(Simulation& simulation, const Prompt& prompt, index at_once) {
  std::size_t bytes = 0;
  std::vector<double> us(std::size(policies));
  for (index first = 0; first < prompt.chunks(); first += at_once) {
    StepGraph group;
    for (const GraphStep& step : prompt.graph().steps())
      if (first <= step.chunk && step.chunk < first + at_once) group.add(step);
    Arena arena(group.accesses(), prompt.kept());
    const Edges edges = Edges::of(arena.apart());
    arena.place(edges);
    bytes = std::max(bytes, arena.bytes());
    for (std::size_t i = 0; i < us.size(); ++i) us[i] += simulation.run(group, edges, policies[i]).makespan_us();
  }
  std::printf("  %ld at once:", static_cast<long>(at_once));
  for (std::size_t i = 0; i < us.size(); ++i)
    std::printf(" %s %.2f ms,", std::string(name(policies[i])).c_str(), us[i] / 1e3);
  std::printf(" an arena of %.2f MB\n", 1e-6 * static_cast<double>(bytes));
}

void print(const char* edges_of, std::string_view policy, const DeviceTimeline& timeline, const Edges& edges) {
  std::printf("  %-12s %-15s %8.2f ms   waits: npu %4.1f%%, gpu %4.1f%%   lower bound %8.2f ms\n", edges_of,
              std::string(policy).c_str(), timeline.makespan_us() / 1e3, 100 * timeline.bubble_share(0),
              100 * timeline.bubble_share(1), lower_bound_us(timeline, edges) / 1e3);
}

void print(const char* edges_of, double seconds, const Edges& edges) {
  const double pairs = static_cast<double>(edges.steps() * (edges.steps() - 1)) / 2;
  std::printf("  %-12s %5ld edges, %4.1f%% of pairs free, longest path %4ld steps, found in %.1f ms\n", edges_of,
              static_cast<long>(edges.count()), 100 * static_cast<double>(edges.unordered_pairs()) / pairs,
              static_cast<long>(edges.longest_path()), 1e3 * seconds);
}

int report(const char* trace) {
  const index chunk = 128, chunks = measure::short_run() ? 2 : 8;
  const auto fails = [](const Status& status) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  };
  const ModelConfig config = shape();
  auto weights = random_weights(config, "w4a16", Cpu().parallel());
  if (!weights) return fails(weights.error());
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(chunk * chunks), 1);
  const auto recorded_prompt = Prompt::record(config, std::move(*weights), ids, chunk);
  if (!recorded_prompt) return fails(recorded_prompt.error());
  const Prompt& prompt = **recorded_prompt;
  const auto recorded = prompt.graph().accesses();
  Arena arena(recorded, prompt.kept());
  const auto apart = arena.apart();
  std::optional<Edges> edges, of_values;
  const double first = measure::seconds([&] { edges.emplace(Edges::of(recorded)); });
  const double second = measure::seconds([&] { of_values.emplace(Edges::of(apart)); });
  std::printf("%ld chunks of %ld tokens, %ld steps\n", static_cast<long>(chunks), static_cast<long>(chunk),
              static_cast<long>(prompt.graph().size()));
  print("of buffers", first, *edges);
  print("of values", second, *of_values);
  arena.place(Edges::in_order(prompt.graph().size()));
  const std::size_t in_order = arena.bytes();
  const double placing = measure::seconds([&] { arena.place(*of_values); });
  std::printf("  %zu tensors: buffers %.2f MB; placed in the program's order %.2f MB, in any %.2f MB, in %.1f ms\n",
              arena.tensors().size(), 1e-6 * static_cast<double>(arena.recorded_bytes()),
              1e-6 * static_cast<double>(in_order), 1e-6 * static_cast<double>(arena.bytes()), 1e3 * placing);

  Simulation simulation(prompt);
  const Edges chain = Edges::in_order(prompt.graph().size());
  print("in order", "", simulation.run(chain, Policy::fifo), chain);
  DeviceTimeline best;
  for (const auto& [name_of, each] : {std::pair{"of buffers", &*edges}, {"of values", &*of_values}})
    for (const Policy policy : policies) {
      DeviceTimeline timeline = simulation.run(*each, policy);
      print(name_of, name(policy), timeline, *each);
      if (best.spans.empty() || timeline.makespan_us() < best.makespan_us()) best = std::move(timeline);
    }
  for (const index at_once : {1, 2, 4}) print_groups(simulation, prompt, at_once);
  if (trace == nullptr) return 0;
  const Status written = write_trace(trace, "prompt on gpu and npu, simulated", best, prompt.graph());
  return written.ok() ? 0 : fails(written);
}

}  // namespace
}  // namespace inlay::exec

int main(int argc, char** argv) { return inlay::exec::report(argc > 1 ? argv[1] : nullptr); }
