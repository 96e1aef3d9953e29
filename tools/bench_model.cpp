// inlay bench model: a whole model, of a file or of a published shape with random weights, prefill and decode, beside
// what the machine can do at best. The limit is the best of those measured between the passes, as shared memory changes
// its speed; where others had the processors, no share of it is printed (measure/processors.hpp).
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/model_tensors.hpp>
#include <inlay/model/random_weights.hpp>

#include "measure/limits.hpp"
#include "measure/processors.hpp"
#include "measure/timing.hpp"
#include "tools/commands.hpp"
#include "tools/model_shapes.hpp"
#include "tools/ranks.hpp"
#include "tools/session.hpp"
#include "tools/timeline.hpp"
#include "tools/two_devices.hpp"

namespace inlay::tools {

namespace {

using measure::median, measure::seconds;

constexpr index chunk = 512;  // tokens of a prompt in one pass

struct Options {
  std::string model;  // a file; empty: `shape` and `type`
  std::string shape = "llama3.2-1b", type = "bf16", kv_type = "auto", isa, backend = "cpu", device, pool = "inlay";
  Rounding rounding;
  std::vector<index> prefill = {64, 512}, depth = {0, 4096}, batch;
  std::vector<exec::Plans> plans = {exec::EngineOptions().plans};  // by turns
  index tokens = 16;
  int threads = 2;    // 0: as many as this process may use
  std::string ranks;  // --ranks
  std::string cut;    // --cut
  std::string place;  // --place
  std::string trace;  // a file: decoding is observed
};

// What one token reads of the cache: the keys and values of `depth` tokens.
double cache_bytes(const exec::ModelConfig& config, DType kv_type, index depth) {
  return static_cast<double>(exec::bytes_a_token(exec::cache_shape(config, kv_type, 1, 1)) * depth);
}

// Multiply-adds of a prompt count two; its head is read for the last token only. Attention is causal: half of its
// square, or less of layers with a window.
double prefill_flops(const exec::ModelConfig& c, index tokens) {
  const double n = static_cast<double>(tokens);
  double of_token = 0, attention = 0;
  const Status counted = exec::for_each_tensor(c, [&](const exec::TensorFacts& tensor) {
    if ((tensor.layer < 0 && tensor.part != exec::Part::layer_inputs_projection) || tensor.rank < 2) return Status{};
    double size = 1;
    for (int d = 0; d < tensor.rank; ++d) size *= static_cast<double>(tensor.extents[static_cast<std::size_t>(d)]);
    // Of experts a token has top_k.
    of_token +=
        tensor.rank == 3 ? size * static_cast<double>(c.experts.top_k) / static_cast<double>(c.experts.count) : size;
    return Status{};
  });
  for (index i = 0; counted.ok() && i < c.layers; ++i) {
    const exec::LayerConfig layer = c.layer(i);
    const double window = layer.window > 0 ? std::min(n, static_cast<double>(layer.window)) : n;
    const double pairs = n * window - window * window / 2;
    attention += 2 * pairs * static_cast<double>(c.heads * (layer.head_dim + c.value_dim(layer)));
  }
  return 2 * n * of_token + attention + 2 * static_cast<double>(c.vocab) * static_cast<double>(c.dim);
}

// What is measured: one rank's processor, and how many ranks there are.
struct Machine {
  Cpu cpu;
  int ranks = 1;
};

// The end of a line: the share of `limit`, in the units of `rate` and 1e9 of them, unless the figure was disturbed. The
// limit is what this rank's threads can do, which says nothing of several, and bytes are this rank's.
void print_share(const measure::Processors& processors, const Machine& machine, double rate, double limit,
                 const char* unit) {
  const Cpu& cpu = machine.cpu;
  if (machine.ranks > 1)
    std::printf("%d ranks\n", machine.ranks);
  else if (processors.disturbed(cpu.parallel().width))
    std::printf("disturbed\n");
  else
    std::printf("%5.1f%% of %.1f %s\n", 100 * rate / limit, limit * 1e-9, unit);
  std::fflush(stdout);
}

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

// Passes of each mode in turn: the median of each.
class Turns {
 public:
  explicit Turns(const std::vector<exec::Plans>& plans) : plans_(plans), times_(plans.size()) {}

  exec::Plans next() const { return plans_[turn_ % plans_.size()]; }
  void add(double time) { times_[turn_++ % plans_.size()].push_back(time); }
  // print(time) for each, behind its name where there are several.
  template <class Print> void each(Print&& print) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      for (const auto& [name, plans] : plan_modes())
        if (plans == plans_[i] && plans_.size() > 1) std::printf("plans %-9s ", name.c_str());
      print(median(times_[i]));
    }
  }

 private:
  std::vector<exec::Plans> plans_;
  std::vector<std::vector<double>> times_;
  std::size_t turn_ = 0;
};

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

// As many tokens more, observed: a table, and the median pass for the trace.
int trace_decode(exec::Session& session, const Cpu& cpu, index depth, index tokens, Timeline& timeline) {
  session.use_plans(exec::Plans::decode);
  session.observe(&timeline);
  Status status = session.decode(1);  // which captures the plan
  for (index i = 0; i < tokens && status.ok(); ++i) {
    (void)measure::read_rate(cpu);
    timeline.begin_pass();
    status = session.decode(static_cast<exec::Token>((i + 2) % session.config().vocab));
    timeline.end_pass();
  }
  session.observe(nullptr);
  if (!status.ok()) return wrong(status);
  std::printf("trace of decode at depth %5ld, the faster half of %ld passes, median %.1f us:\n",
              static_cast<long>(depth), static_cast<long>(tokens), timeline.median_us());
  timeline.print();
  timeline.keep("decode at depth " + std::to_string(depth));
  return 0;
}

// Tokens that so many texts get together, each behind a prompt of `depth`.
int bench_batch(exec::Engine& engine, double linear_bytes, const Machine& machine, index texts, index depth,
                const Options& options) {
  const Cpu& cpu = machine.cpu;
  const index tokens = options.tokens * std::ssize(options.plans);
  const exec::ModelConfig& config = engine.config();
  Status status = engine.reserve_logits(texts);
  std::vector<exec::Sequence> sequences(static_cast<std::size_t>(texts));
  exec::Batch batch;
  const auto pass = [&] {
    if (status.ok()) status = engine.forward(batch, 0);
    batch.clear();
  };
  for (exec::Sequence& each : sequences) {
    const auto prompt = any_prompt(depth, config.vocab);
    for (index done = 0; done < depth && status.ok(); done = each.length) {
      const auto part = std::span(prompt)
                            .subspan(static_cast<std::size_t>(done))
                            .first(static_cast<std::size_t>(std::min(depth - done, chunk)));
      status = batch.add_prompt(engine.blocks(), each, part);
      pass();
      each.length += static_cast<index>(part.size());
    }
  }
  Turns turns(options.plans);
  std::vector<double> reads;
  measure::Processors processors;
  for (index i = 0; i < tokens + 1 && status.ok(); ++i) {
    reads.push_back(measure::read_rate(cpu));
    engine.use_plans(turns.next());
    if (i > 0) processors.begin();
    const double time = seconds([&] {
      for (exec::Sequence& each : sequences) {
        const auto token = static_cast<exec::Token>((i + 2) % config.vocab);
        if (status.ok()) status = batch.add_generated(engine.blocks(), each, {&token, 1});
      }
      pass();
    });
    for (exec::Sequence& each : sequences) ++each.length;
    if (i == 0) continue;  // touches memory for the first time
    processors.end();
    turns.add(time);
  }
  for (exec::Sequence& each : sequences) engine.blocks().release(each);
  if (!status.ok()) return wrong(status);
  const double bytes = linear_bytes + static_cast<double>(texts) *
                                          cache_bytes(config, engine.blocks().shape().dtype, depth + 1 + tokens / 2);
  turns.each([&](double time) {
    std::printf("decode of %2ld texts at depth %5ld   %7.2f tok/s %9.2f GB/s     ", static_cast<long>(texts),
                static_cast<long>(depth), static_cast<double>(texts) / time, bytes / time * 1e-9);
    print_share(processors, machine, bytes / time, *std::max_element(reads.begin(), reads.end()), "GB/s read");
  });
  return 0;
}

// What of the options stays the same on all ranks, and what is read of a file.
struct Setting {
  std::shared_ptr<const exec::ModelFile> file;
  exec::ModelConfig config;
  ModelOptions model;
};

// Of many texts, with what this rank has of the model.
struct EngineOfMany {
  std::unique_ptr<exec::Engine> engine;
  double linear_bytes;
};
Expected<EngineOfMany> engine_of_many(const Options& options, const Setting& setting) {
  const ModelOptions& settings = setting.model;
  const exec::Comm& comm = settings.comm;
  const index most = *std::max_element(options.batch.begin(), options.batch.end());
  const index depth = options.depth.empty() ? 0 : *std::max_element(options.depth.begin(), options.depth.end());
  constexpr index block_size = 16;
  const index tokens = options.tokens * std::ssize(options.plans);
  return on_devices<EngineOfMany>(settings, options.backend, 1, [&](auto run) -> Expected<EngineOfMany> {
    auto cut = exec::RankCut::make(setting.config, comm.rank, comm.size, cut_of(settings));
    if (!cut) return failure(std::move(cut.error()));
    auto weights = setting.file
                       ? exec::load_weights(
                             setting.file, run.parallel(), [](index, index) {}, *cut, options.rounding.of_linears())
                       : exec::random_weights(setting.config, options.type, run.parallel(), 1, *cut);
    if (!weights) return failure(std::move(weights.error()));
    const auto linear_bytes = static_cast<double>(weights->linear_bytes);
    const exec::ModelConfig own = cut->config();
    auto engine = exec::make_engine(own, std::move(*weights), std::move(run),
                                    {.max_tokens = std::max(chunk, most),
                                     .context = settings.context,
                                     .activations = options.rounding.of_linears(),
                                     .attention = options.rounding.of_attention(),
                                     .cache = exec::cache_shape(own, kv_type(settings, setting.file.get()), block_size,
                                                                most * (depth + 1 + tokens + block_size)),
                                     .comm = comm});
    if (!engine) return failure(std::move(engine.error()));
    return EngineOfMany{std::move(*engine), linear_bytes};
  });
}

int bench_batches(const Options& options, const Setting& setting, const Machine& machine) {
  auto many = engine_of_many(options, setting);
  if (!many) return wrong(many.error());
  for (index at : options.depth)
    for (index texts : options.batch)
      if (int code = bench_batch(*many->engine, many->linear_bytes, machine, texts, at, options); code != 0)
        return code;
  return 0;
}

// What another rank does meanwhile.
Status follow(const Options& options, const Setting& setting) {
  Status status = setting.file ? follow_session(setting.model)
                               : follow_random_session(setting.model, setting.config, options.type,
                                                       {.context = setting.model.context, .chunk = chunk});
  if (!status.ok() || options.batch.empty()) return status;
  auto many = engine_of_many(options, setting);
  return many ? exec::follow(*many->engine, setting.model.comm) : std::move(many.error());
}

int bench(const Options& options, const Setting& setting, Timeline& timeline) {
  const bool traced = !options.trace.empty();
  const ModelOptions& settings = setting.model;
  auto cpu = make_cpu(options.isa, settings.threads, options.pool);
  if (!cpu) return wrong(cpu.error());
  auto session = setting.file ? make_session(settings, setting.file, options.backend)
                              : make_random_session(settings, setting.config, options.type,
                                                    {.context = settings.context, .chunk = chunk});
  if (!session) return wrong(session.error());
  const Machine machine{*cpu, settings.comm.size};
  // Linears of int8 round their activations whatever is asked for.
  const bool rounds = !setting.file && options.type == "int8";
  const std::string activations = rounds ? "int8" : options.rounding.activations;
  const std::string what = setting.file ? options.model : options.shape + " " + options.type;
  const DType cache = kv_type(settings, setting.file.get());
  std::printf("%s, activations %s, attention %s, linears %.0f MB%s, cache %s of %.0f bytes a token, %s, %s x%d\n",
              what.c_str(), activations.c_str(), options.rounding.attention.c_str(),
              static_cast<double>(session->linear_bytes()) * 1e-6, machine.ranks > 1 ? " on rank 0" : "",
              kv_type_word(cache).c_str(), cache_bytes(session->config(), cache, 1), options.backend.c_str(),
              std::string(name(cpu->isa())).c_str(), cpu->parallel().width);
  for (index n : options.prefill)
    if (int code = bench_prefill(*session, setting.config, machine, n); code != 0) return code;
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
  if (traced && options.backend != "cpu")
    return wrong("--trace is for --backend cpu, whose threads it observes; the backend is " + options.backend);
  options.backend == "cl" ? measure::wait_passively() : measure::wait_actively();
  Setting setting;
  if (!options.model.empty()) {
    auto loaded = exec::load_model(options.model);
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
  ModelOptions& settings = setting.model;
  settings.model = options.model;
  settings.isa = options.isa;
  settings.device = options.device;
  settings.threads = options.threads;
  settings.pool = options.pool;
  settings.backend = options.backend;
  settings.rounding = options.rounding;
  settings.kv_type = options.kv_type;
  settings.context = context;
  settings.chunk = chunk;
  settings.ranks = options.ranks;
  settings.cut = options.cut;
  settings.place = options.place;
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

void add_bench(CLI::App& app, Command& chosen) {
  CLI::App& group = *app.add_subcommand("bench", "Measure whole models (single operators: bench/)");
  group.require_subcommand(1);
  auto options = std::make_shared<Options>();
  CLI::App& command = *group.add_subcommand("model", "Prefill and decode of a model of a file, or with random weights");
  CLI::Option* model =
      command.add_option("model", options->model, "A GGUF or .safetensors file, or a directory of one");
  command.add_option("--shape", options->shape, "Published shape, in place of a file")
      ->excludes(model)
      ->check(CLI::IsMember(model_shapes()));
  command.add_option("--type", options->type, "Type of the linears, of a shape")
      ->excludes(model)
      ->check(CLI::IsMember({"f32", "f16", "bf16", "int8", "w4a16"}));
  options->rounding.add_to(command);
  add_kv_type(command, options->kv_type);
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
  command.add_option("--trace", options->trace,
                     "A file for Perfetto: what each operator and each thread does of a decoded token, and a table");
  add_threads(command, options->threads, options->pool);
  command.add_option("--isa", options->isa, "Instruction set: see inlay devices");
  command.add_option("--backend", options->backend, "Where the operators run")
      ->check(CLI::IsMember(backends_and_pairs()));
  add_place(command, options->place);
  add_device(command, options->device);
  add_ranks(command, options->ranks, options->cut);
  command.get_option("--ranks")->excludes("--trace");
  command.callback([options, &chosen] { chosen = [options] { return bench(*options); }; });
  add_bench_contention(group, chosen);
  add_bench_serve(group, chosen);
}

}  // namespace inlay::tools
