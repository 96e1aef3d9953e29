// inlay profile: what each operator of a model takes on devices of this machine, by rows, as `inlay plan --devices` and
// `inlay run --devices` read it.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>
#include <inlay/exec/split/device_list.hpp>
#include <inlay/exec/split/recorded_prompt.hpp>
#include <inlay/ops/add.hpp>
#ifdef INLAY_HAS_CL
#include <inlay/exec/device/cl_over_host.hpp>
#endif
#ifdef INLAY_HAS_NPU
#include <inlay/npu.hpp>
#endif

#include "measure/timing.hpp"
#include "tools/commands.hpp"
#include "tools/plan/planned_model.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

using exec::GraphStep;

struct Options {
  std::string model, backend = "cpu", name, device, isa, pool = "inlay", output;
  std::vector<index> rows = {1, 16, 64, 256};
  int threads = 0, repeats = 3;
};

using ProfiledPrompt = exec::RecordedPrompt<Cpu
#ifdef INLAY_HAS_CL
                                            ,
                                            exec::ClOverHost
#endif
#ifdef INLAY_HAS_NPU
                                            ,
                                            Npu
#endif
                                            >;

// What computes steps, and is told of the memory of a prompt before.
struct Measured {
  exec::DeviceKind kind;
  std::function<Status(const exec::StepGraph&)> share;
  exec::StepCompute compute;
  std::function<Status(const GraphStep&)> supports;
};

template <class Backend> Measured measured(Backend backend, exec::DeviceKind kind) {
  auto kept = std::make_shared<Backend>(std::move(backend));
  auto runner = std::make_shared<exec::StepRunner<Backend&>>(*kept);
  return {.kind = kind,
          .share =
              [kept](const exec::StepGraph& graph) {
                if constexpr (requires { kept->share(graph, [](std::size_t) { return true; }); })
                  return kept->share(graph, [](std::size_t) { return true; });
                else
                  return Status();
              },
          .compute = [kept, runner](const GraphStep& step) { return runner->run(step); },
          .supports = [kept, runner](const GraphStep& step) { return runner->supports(step); }};
}

Expected<Measured> make_measured(const Options& options, [[maybe_unused]] const std::string& name) {
#ifdef INLAY_HAS_CL
  if (name == "cl") {
    auto cl = Cl::make({.device = options.device});
    if (!cl) return failure(std::move(cl.error()));
    return measured(exec::ClOverHost(std::move(*cl)), exec::DeviceKind::gpu);
  }
#endif
#ifdef INLAY_HAS_NPU
  if (name == "npu") {
    auto npu = Npu::make({.device = options.device});
    if (!npu) return failure(std::move(npu.error()));
    return measured(std::move(*npu), exec::DeviceKind::npu);
  }
#endif
  auto cpu = make_cpu(options.isa, options.threads, options.pool);
  if (!cpu) return failure(std::move(cpu.error()));
  return measured(std::move(*cpu), exec::DeviceKind::cpu);
}

// A prompt of one chunk and a device that computes it, step after step. What the device declines is left out.
class Pass {
 public:
  static Expected<Pass> make(const Options& options, const Measured& device, index rows) {
    auto model = planned_model(options.model, Cpu().parallel());
    if (!model) return failure(std::move(model.error()));
    auto prompt =
        ProfiledPrompt::record(model->config, std::move(model->weights), any_prompt(rows, model->config.vocab), rows);
    if (!prompt) return failure(std::move(prompt.error()));
    Pass pass(device, std::move(*prompt));
    const exec::StepGraph& graph = std::as_const(*pass.prompt_).graph();
    if (Status status = device.share(graph); !status.ok()) return failure(std::move(status));
    for (const GraphStep& step : graph.steps())
      if (device.supports(step).ok()) pass.steps_.push_back(&step);
    return pass;
  }

  // measured(step, us) of each, or until that is to stop.
  template <class Each> Status run(const Each& measured, const std::atomic<bool>* stop = nullptr) {
    for (const GraphStep* const step : steps_) {
      if (stop != nullptr && *stop) break;
      Status status;
      const double us = 1e6 * measure::seconds([&] { status = device_->compute(*step); });
      if (!status.ok()) return status;
      measured(*step, std::max(us, 1e-3));
    }
    return {};
  }
  Expected<double> us() {
    double sum = 0;
    if (Status status = run([&](const GraphStep&, double us) { sum += us; }); !status.ok())
      return failure(std::move(status));
    return sum;
  }

 private:
  Pass(const Measured& device, std::unique_ptr<ProfiledPrompt> prompt) : device_(&device), prompt_(std::move(prompt)) {}

  const Measured* device_;
  std::unique_ptr<ProfiledPrompt> prompt_;
  std::vector<const GraphStep*> steps_;
};

// Once each to warm up, then so often by turns: a machine's speed changes meanwhile, and a solver goes by what devices
// take beside each other.
Status measure_rows(std::vector<Pass>& passes, int repeats, std::vector<exec::ListedDevice>& devices) {
  for (Pass& pass : passes)
    if (auto warm = pass.us(); !warm) return std::move(warm.error());
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const auto add = [&](const GraphStep& step, double us) { devices[i].profile->add(step, us); };
      if (Status status = passes[i].run(add); !status.ok()) return status;
    }
  return {};
}

// In times of what a pass takes alone, what it takes while the other device computes one after the other.
Expected<double> slowed(Pass& pass, Pass& other, int repeats) {
  std::vector<double> alone, beside;
  for (int repeat = -1; repeat < repeats; ++repeat) {
    auto us = pass.us();
    if (!us) return failure(std::move(us.error()));
    std::atomic<bool> stop = false;
    Status status;
    std::thread works([&] {
      while (!stop && status.ok()) status = other.run([](const GraphStep&, double) {}, &stop);
    });
    auto both = pass.us();
    stop = true;
    works.join();
    if (!both) return failure(std::move(both.error()));
    if (!status.ok()) return failure(std::move(status));
    if (repeat >= 0) alone.push_back(*us), beside.push_back(*both);
  }
  return std::max(1.0, measure::median(beside) / measure::median(alone));
}

// What a step waits whose input another device wrote: steps that compute nothing, by turns on two devices.
Expected<double> hand_over_us() {
  constexpr index steps = 200;
  std::vector<float> memory(4);
  const View<2> cells(memory.data(), {2, 2});
  exec::StepGraph graph;
  exec::GraphRecorder<> record(graph);
  for (index i = 0; i < steps; ++i) record(Add<Host>{.a = cells, .b = cells, .y = cells});
  if (Status status = record.take_status(); !status.ok()) return failure(std::move(status));
  const exec::StepCompute nothing = [](const GraphStep&) { return Status(); };
  exec::CpuDevice one({.name = "one"}, nothing), other({.name = "other"}, nothing);
  exec::Device* const devices[] = {&one, &other};
  exec::DeviceThreads threads(devices);
  std::vector<std::size_t> placement;
  for (index i = 0; i < steps; ++i) placement.push_back(static_cast<std::size_t>(i % 2));
  const exec::Edges line = exec::Edges::in_order(steps);
  std::vector<double> took;
  for (int turn = 0; turn < 9; ++turn) {
    exec::DeviceTimeline timeline;
    Status status =
        exec::run_steps({.graph = graph, .edges = line, .devices = devices, .placement = placement}, threads, timeline);
    if (!status.ok()) return failure(std::move(status));
    took.push_back(timeline.makespan_us() / static_cast<double>(steps));
  }
  return measure::median(took);
}

int profile(const Options& options) {
  std::vector<index> rows = options.rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const std::size_t plus = options.backend.find('+');
  std::vector<std::string> names = {options.backend.substr(0, plus)};
  if (plus != options.backend.npos) names.push_back(options.backend.substr(plus + 1));
  if (names.size() > 1 && !options.name.empty())
    return wrong("--name is " + options.name + " and --backend " + options.backend +
                 ", whose devices have their own; it must be left out");
  exec::DeviceList list;
  std::vector<Measured> devices;
  for (const std::string& each : names) {
    auto device = make_measured(options, each);
    if (!device) return wrong(device.error());
    const std::string& name = options.name.empty() ? each : options.name;
    list.devices.push_back({.name = name, .kind = device->kind, .profile = exec::Profile(name)});
    devices.push_back(std::move(*device));
  }
  std::vector<Pass> passes;
  for (const index count : rows) {
    passes.clear();
    for (const Measured& device : devices) {
      auto pass = Pass::make(options, device, count);
      if (!pass) return wrong(pass.error());
      passes.push_back(std::move(*pass));
    }
    if (Status status = measure_rows(passes, options.repeats, list.devices); !status.ok()) return wrong(status);
    std::fprintf(stderr, "%ld rows measured\n", static_cast<long>(count));
  }
  if (names.size() > 1) {
    auto sync = hand_over_us();
    if (!sync) return wrong(sync.error());
    list.sync_us = *sync;
    for (std::size_t i = 0; i < 2; ++i) {
      auto times = slowed(passes[i], passes[1 - i], options.repeats);
      if (!times) return wrong(times.error());
      list.devices[i].slowed = *times;
      std::fprintf(stderr, "%s: %.2f times as long beside the other\n", names[i].c_str(), *times);
    }
  }
  const std::string text = list.json() + "\n";
  return write_output(options.output, text);
}

// Those that ProfiledPrompt is recorded for.
std::vector<std::string> measurable() {
  std::vector<std::string> words = backends_and_pairs();
  std::erase(words, "reference");
  return words;
}

}  // namespace

void add_profile(CLI::App& app, Command& chosen) {
  auto& command =
      *app.add_subcommand("profile", "Measure what each operator of a model takes on devices of this machine, by rows");
  auto options = std::make_shared<Options>();
  command.add_option("model", options->model,
                     "A model file, or a shape as of bench model (none: the model that ships with Inlay)");
  command.add_option("--rows", options->rows, "Tokens of a pass, with commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16));
  command.add_option("--repeats", options->repeats, "Passes that are measured, of each")->check(CLI::Range(1, 1000));
  command
      .add_option("--backend", options->backend,
                  "Which devices: cpu, cl or npu, by turns where there are two, for --devices of inlay run")
      ->check(CLI::IsMember(measurable()));
  command.add_option("--name", options->name, "The device's name in the file (default: the backend's)");
  add_device(command, options->device);
  command.add_option("--isa", options->isa, "Instruction set of the kernels");
  add_threads(command, options->threads, options->pool);
  command.add_option("-o,--output", options->output, "Write the file there; else to standard output");
  command.callback([&chosen, options] { chosen = [options] { return profile(*options); }; });
}

}  // namespace inlay::tools
