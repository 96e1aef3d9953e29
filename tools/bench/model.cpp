// inlay bench model: a whole model, of a file or of a published shape with random weights, prefill and decode, beside
// what the machine can do at best. The limit is the best of those measured between the passes, as shared memory changes
// its speed; where others had the processors, no share of it is printed (measure/processors.hpp).
#include "tools/bench/model.hpp"

#include <algorithm>
#include <iterator>

#include <inlay/model/load.hpp>

#include "measure/limits.hpp"
#include "tools/commands.hpp"
#include "tools/model_shapes.hpp"
#include "tools/ranks.hpp"
#include "tools/timeline.hpp"
#include "tools/two_devices.hpp"

namespace inlay::tools {

namespace bench_model {

namespace {

using measure::median, measure::seconds;

int bench_prefill(exec::Session& session, const exec::ModelConfig& config, const Machine& machine, index tokens) {
  const Cpu& cpu = machine.cpu;
  std::vector<double> times, peaks;
  measure::Processors processors;
  for (int round = 0; round < 4; ++round) {
    session.reset();
    peaks.push_back(measure::fma_rate(cpu));
    Status status;
    const bool first = round == 0;  // touches memory for the first time
    if (!first) processors.begin();
    const double time = seconds([&] { status = session.append(any_prompt(tokens, session.config().vocab)); });
    if (!status.ok()) return wrong(status);
    if (first) continue;
    processors.end();
    times.push_back(time);
  }
  const double time = median(times), flops = prefill_flops(config, tokens);
  std::printf("prefill %5ld tokens %9.1f tok/s %9.1f GFLOP/s  ", static_cast<long>(tokens),
              static_cast<double>(tokens) / time, flops / time * 1e-9);
  print_share(processors, machine, flops / time, *std::max_element(peaks.begin(), peaks.end()), "GFLOP/s f32 fma");
  return 0;
}

// Those that are measured, and those that are observed and the capture before them.
index passes_of_decode(const Options& options) {
  return options.tokens * std::ssize(options.plans) + (options.trace.empty() ? 0 : options.tokens + 1);
}

int bench_decode(exec::Session& session, DType kv_type, const Machine& machine, index depth, index tokens,
                 const std::vector<exec::Plans>& plans) {
  const Cpu& cpu = machine.cpu;
  session.reset();
  const index vocab = session.config().vocab;
  Status status;
  const auto keep = [&](Status passed) {
    if (status.ok()) status = std::move(passed);
  };
  if (depth > 0) {
    Progress progress("filling the cache");
    keep(session.append(any_prompt(depth, vocab), 1, [&](index done, index all) { progress(done, all); }));
  }
  keep(session.decode(1));
  Turns turns(plans);
  std::vector<double> reads;
  measure::Processors processors;
  for (index i = 0; i < tokens * std::ssize(plans) && status.ok(); ++i) {
    reads.push_back(measure::read_rate(cpu));
    session.use_plans(turns.next());
    processors.begin();
    turns.add(seconds([&] { keep(session.decode(static_cast<exec::Token>((i + 2) % vocab))); }));
    processors.end();
  }
  if (!status.ok()) return wrong(status);
  const double bytes = static_cast<double>(session.linear_bytes()) +
                       cache_bytes(session.config(), kv_type, depth + 1 + tokens * std::ssize(plans) / 2);
  turns.each([&](double time) {
    std::printf("decode at depth %5ld   %7.2f tok/s %9.2f GB/s     ", static_cast<long>(depth), 1 / time,
                bytes / time * 1e-9);
    print_share(processors, machine, bytes / time, *std::max_element(reads.begin(), reads.end()), "GB/s read");
  });
  return 0;
}

// So many passes, observed, behind one that captures their plan: a table, and the median pass for the trace.
// before() comes before each.
template <class Before, class Pass>
int trace(exec::Session& session, Timeline& timeline, const std::string& what, index passes, Before&& before,
          Pass&& pass) {
  session.observe(&timeline);
  Status status;
  for (index i = 0; i <= passes && status.ok(); ++i) {
    if (status = before(); !status.ok()) break;
    if (i > 0) timeline.begin_pass();
    status = pass();
    if (i > 0) timeline.end_pass();
  }
  session.observe(nullptr);
  if (!status.ok()) return wrong(status);
  std::printf("trace of %s, the faster half of %ld passes, median %.1f us:\n", what.c_str(), static_cast<long>(passes),
              timeline.median_us());
  timeline.print();
  timeline.keep(what);
  return 0;
}

// A prompt that is one chunk, or the last chunk of a longer one.
int trace_prefill(exec::Session& session, index tokens, Timeline& timeline) {
  const index last = (tokens - 1) % chunk + 1, vocab = session.config().vocab;
  session.use_plans(exec::Plans::full);
  return trace(
      session, timeline, "prefill of " + std::to_string(tokens) + " tokens", 4,
      [&] {
        session.reset();
        return tokens > last ? session.append(any_prompt(tokens - last, vocab)) : Status();
      },
      [&] { return session.append(any_prompt(last, vocab)); });
}
int trace_decode(exec::Session& session, const Cpu& cpu, index depth, index tokens, Timeline& timeline) {
  index next = 1;
  session.use_plans(exec::Plans::decode);
  return trace(
      session, timeline, "decode at depth " + std::to_string(depth), tokens,
      [&] {
        (void)measure::read_rate(cpu);
        return Status();
      },
      [&] { return session.decode(static_cast<exec::Token>(next++ % session.config().vocab)); });
}

// What another rank does meanwhile.
Status follow(const Options& options, const Setting& setting) {
  Status status = setting.file ? follow_session(setting.model)
                               : follow_random_session(setting.model, setting.config, options.type,
                                                       {.context = setting.model.context, .chunk = chunk});
  if (!status.ok() || options.batch.empty()) return status;
  return follow_batches(options, setting);
}

int bench(const Options& options, const Setting& setting, Timeline& timeline) {
  const bool traced = !options.trace.empty();
  const ModelOptions& settings = setting.model;
  auto cpu = make_cpu(settings.isa, settings.threads, settings.pool);
  if (!cpu) return wrong(cpu.error());
  auto session = setting.file ? make_session(settings, setting.file, settings.backend)
                              : make_random_session(settings, setting.config, options.type,
                                                    {.context = settings.context, .chunk = chunk});
  if (!session) return wrong(session.error());
  const Machine machine{*cpu, settings.comm.size};
  // Linears of int8 round their activations whatever is asked for.
  const bool rounds = !setting.file && options.type == "int8";
  const std::string activations = rounds ? "int8" : settings.rounding.activations;
  const std::string what = setting.file ? settings.model : options.shape + " " + options.type;
  const DType cache = kv_type(settings, setting.file.get());
  std::printf("%s, activations %s, attention %s, linears %.0f MB%s, cache %s of %.0f bytes a token, %s, %s x%d\n",
              what.c_str(), activations.c_str(), settings.rounding.attention.c_str(),
              static_cast<double>(session->linear_bytes()) * 1e-6, machine.ranks > 1 ? " on rank 0" : "",
              kv_type_word(cache).c_str(), cache_bytes(session->config(), cache, 1), settings.backend.c_str(),
              std::string(name(cpu->isa())).c_str(), cpu->parallel().width);
  for (index n : options.prefill) {
    if (int code = bench_prefill(*session, setting.config, machine, n); code != 0) return code;
    if (!traced) continue;
    if (int code = trace_prefill(*session, n, timeline); code != 0) return code;
  }
  for (index n : options.depth) {
    if (int code = bench_decode(*session, cache, machine, n, options.tokens, options.plans); code != 0) return code;
    if (!traced) continue;
    if (int code = trace_decode(*session, *cpu, n, options.tokens, timeline); code != 0) return code;
  }
  if (traced)
    if (Status status = timeline.write(options.trace); !status.ok()) return wrong(status);
  if (options.batch.empty()) return 0;
  session = failure(Status());  // its weights and its cache
  return bench_batches(options, setting, machine);
}

int bench(const Options& options) {
  const bool traced = !options.trace.empty();
  if (traced && options.model.backend != "cpu")
    return wrong("--trace is for --backend cpu, whose threads it observes; the backend is " + options.model.backend);
  options.model.backend == "cl" ? measure::wait_passively() : measure::wait_actively();
  Setting setting;
  if (!options.model.model.empty()) {
    auto loaded = exec::load_model(options.model.model);
    if (!loaded) return wrong(loaded.error());
    setting.file = std::make_shared<const exec::ModelFile>(std::move(*loaded));
  }
  auto config = setting.file ? Expected<exec::ModelConfig>(setting.file->config) : model_shape(options.shape);
  if (!config) return wrong(config.error());
  setting.config = std::move(*config);
  index context = 0;
  for (index n : options.prefill) context = std::max(context, n);
  for (index n : options.depth) context = std::max(context, n + 1 + passes_of_decode(options));
  if (context > setting.config.context)
    return wrong("--depth and --prefill need a context of " + std::to_string(context) + "; it must be at most " +
                 std::to_string(setting.config.context));
  ModelOptions& settings = setting.model = options.model;
  settings.context = context;
  settings.chunk = chunk;
  Timeline timeline;
  if (traced) {
    if (Status status = timeline.write(options.trace); !status.ok()) return wrong(status);  // before minutes of work
    settings.timeline = &timeline;
  }
  return with_ranks(
      settings,
      [&](const ModelOptions& of_rank) {
        return bench(options, {setting.file, setting.config, of_rank}, timeline);
      },
      [&](const ModelOptions& of_rank) {
        return follow(options, {setting.file, setting.config, of_rank});
      });
}

}  // namespace

}  // namespace bench_model

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App& group = *app.add_subcommand("bench", "Measure whole models (single operators: bench/)");
  group.require_subcommand(1);
  auto options = std::make_shared<bench_model::Options>();
  options->model.threads = 2;  // as many as every machine of the tables has
  CLI::App& command = *group.add_subcommand("model", "Prefill and decode of a model of a file, or with random weights");
  CLI::Option* model =
      command.add_option("model", options->model.model, "A GGUF or .safetensors file, or a directory of one");
  command.add_option("--shape", options->shape, "Published shape, in place of a file")
      ->excludes(model)
      ->check(CLI::IsMember(model_shapes()));
  command.add_option("--type", options->type, "Type of the linears, of a shape")
      ->excludes(model)
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8", "w4a16"}));
  options->model.rounding.add_to(command);
  add_kv_type(command, options->model.kv_type);
  command.add_option("--prefill", options->prefill, "Lengths of prompts")->check(CLI::Range(1, 1 << 20));
  command.add_option("--depth", options->depth, "Tokens in the cache before decoding")->check(CLI::Range(0, 1 << 20));
  command.add_option("--batch", options->batch, "Texts that are decoded together, at each depth")
      ->check(CLI::Range(1, 4096))
      ->delimiter(',');
  command.add_option("--tokens", options->tokens, "Tokens to decode, with each of --plans")
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--plans", options->plans, "Passes that are captured and replayed, by turns")
      ->transform(a_plan_mode())
      ->type_name("TEXT")
      ->delimiter(',');
  command.add_option(
      "--trace", options->trace,
      "A file for Perfetto: what each operator and each thread does of a chunk of a prompt and of a decoded token, "
      "and a table of each");
  add_threads(command, options->model.threads, options->model.pool);
  command.add_option("--isa", options->model.isa, "Instruction set: see inlay devices");
  command.add_option("--backend", options->model.backend, "Where the operators run")
      ->check(CLI::IsMember(backends_and_pairs()));
  add_place(command, options->model);
  add_device(command, options->model.device);
  add_ranks(command, options->model.ranks, options->model.cut);
  command.get_option("--ranks")->excludes("--trace");
  command.callback([options, &chosen] { chosen = [options] { return bench_model::bench(*options); }; });
  add_bench_contention(group, chosen);
  add_bench_serve(group, chosen);
}

}  // namespace inlay::tools
