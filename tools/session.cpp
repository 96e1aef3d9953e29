#include "tools/session.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <inlay/core/threads.hpp>
#include <inlay/exec/calibration.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/random_weights.hpp>

#include "files/whole_file.hpp"
#include "tools/timeline.hpp"
#include "tools/two_devices.hpp"

namespace inlay::tools {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

const std::map<std::string, DType>& kv_types() {
  static const std::map<std::string, DType> types = {
      {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"int8", DType::i8}};
  return types;
}

}  // namespace

DType kv_type(const ModelOptions& options, const exec::ModelFile* file) {
  if (const auto named = kv_types().find(options.kv_type); named != kv_types().end()) return named->second;
  return file != nullptr ? file->kv_type() : DType::f16;
}

std::string kv_type_word(DType type) {
  for (const auto& [word, named] : kv_types())
    if (named == type) return word;
  return std::string(name(type));
}

std::vector<std::string> backends() {
  return {"cpu",
#ifdef INLAY_HAS_CL
          "cl",
#endif
#ifdef INLAY_HAS_NPU
          "npu",
#endif
          "reference"};
}

std::vector<std::string> backends_and_pairs() {
  std::vector<std::string> words = backends();
#ifdef INLAY_HAS_CL
  words.emplace_back("cpu+cl");
#endif
#ifdef INLAY_HAS_NPU
  words.emplace_back("cpu+npu");
#endif
  return words;
}

void add_device(CLI::App& command, std::string& device) {
  command.add_option(
      "--device", device,
      "A part of the name of the cl backend's device, or the npu backend's description: see inlay devices");
}

void add_kv_type(CLI::App& command, std::string& kv_type) {
  std::vector<std::string> words = {"auto"};
  for (const auto& [word, type] : kv_types()) words.push_back(word);
  command
      .add_option("--kv-type", kv_type,
                  "Type of the KV cache; int8: keys and values rounded to 8 bits, with a scale for each token and head")
      ->check(CLI::IsMember(words));
}

void add_threads(CLI::App& command, int& threads, std::string& pool) {
  command.add_option("--threads", threads, "Threads of the cpu backend (0: as many as this process may use)")
      ->check(CLI::Range(0, Threads::most));
#if defined(_OPENMP)
  command.add_option("--pool", pool, "Whose threads")->check(CLI::IsMember({"inlay", "openmp"}));
#else
  (void)pool;
#endif
}

const std::map<std::string, exec::Plans>& plan_modes() {
  static const std::map<std::string, exec::Plans> modes = {{"off", exec::Plans::off},
                                                           {"decode", exec::Plans::decode},
                                                           {"piecewise", exec::Plans::piecewise},
                                                           {"full", exec::Plans::full}};
  return modes;
}

CLI::Validator a_plan_mode() {
  std::string names;
  for (const auto& [name, plans] : plan_modes()) names += (names.empty() ? "{" : ",") + name;
  names += '}';
  // Of CLI11's own, one that takes words for numbers says the numbers too, and one of a byte as a letter.
  return CLI::Validator(
      [names](std::string& word) {
        const auto found = plan_modes().find(word);
        if (found == plan_modes().end()) return word + " not in " + names;
        word = std::to_string(static_cast<int>(found->second));
        return std::string();
      },
      names);
}

void Rounding::add_to(CLI::App& command) {
  command
      .add_option(
          "--activations", activations,
          "What linears multiply with: x as it is; for blocks of 4 to 8 bits x rounded to 8 bits by groups; for "
          "floats x and the weight rounded to bf16; f16: --backend npu rounds what its matrix unit multiplies to "
          "f16 once, instead of taking f32 in two halves")
      ->check(CLI::IsMember({"exact", "int8", "bf16", "f16"}));
  command
      .add_option(
          "--attention", attention,
          "What attention of a prompt multiplies: q, K, V and weights as they are, or rounded to bf16 where the "
          "cpu has dot products of it")
      ->check(CLI::IsMember({"exact", "bf16"}));
}

exec::Activations Rounding::of_linears() const {
  if (activations == "int8") return exec::Activations::int8;
  return activations == "bf16" ? exec::Activations::bf16 : exec::Activations::exact;
}

AttentionCompute Rounding::of_attention() const {
  return attention == "bf16" ? AttentionCompute::bf16_products : AttentionCompute::exact_float;
}

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("model", model, "GGUF file, or a directory with safetensors (default: the model of Inlay)");
  command.add_option("--backend", backend, "Where the operators run; cpu+cl, cpu+npu: on two devices at once")
      ->check(CLI::IsMember(backends_and_pairs()));
  add_place(command, *this);
  command.add_option("--chunks-at-once", chunks_at_once, "Chunks of a prompt under way at once, with --backend cpu+..")
      ->check(CLI::Range(1, 64));
  add_device(command, device);
  command.add_option("--isa", isa, "Instruction set of the cpu backend: see inlay devices");
  add_threads(command, threads, pool);
  command.add_option("--chunk", chunk, "Tokens of the prompt in one pass")->check(CLI::Range(1, 1 << 20));
  command.add_option("--context", context, "Tokens that the cache holds (0: the model's context)")
      ->check(CLI::Range(0, 1 << 30));
  add_kv_type(command, kv_type);
  command.add_option("--plans", plans, "Passes that are captured once and replayed: docs/plans.md")
      ->transform(a_plan_mode())
      ->type_name("TEXT");
  rounding.add_to(command);
  command.add_option("--scales", scales,
                     "A file of inlay calibrate: linears of int8 round x by these scales in place of each token's own");
}

int wrong(const std::string& message) {
  std::fprintf(stderr, "inlay: %s\n", message.c_str());
  return 2;
}
int wrong(const Status& status) { return wrong(std::string(status.message())); }

Expected<std::string> read_option(const std::string& option, const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  if (!stream || !(text << stream.rdbuf()))
    return failure(invalid(option + " is " + file + ", which cannot be read or is empty"));
  return text.str();
}

int write_output(const std::string& file, const std::string& text) {
  if (file.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return 0;
  }
  const Status status = files::write_whole(file, text);
  return status.ok() ? 0 : wrong(status);
}

std::string default_model() {
  if (const char* named = std::getenv("INLAY_MODEL")) return named;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto installed = program.parent_path().parent_path() / INLAY_INSTALLED_MODEL;
  if (std::filesystem::exists(installed, ignored)) return installed.string();
  return INLAY_BUILD_MODEL;
}

std::vector<exec::Token> any_prompt(index tokens, index vocab) {
  std::vector<exec::Token> ids;
  for (index i = 0; i < tokens; ++i) ids.push_back(static_cast<exec::Token>((i * 7919 + 13) % vocab));
  return ids;
}

Expected<LoadedModel> open_model(const ModelOptions& options) {
  const std::string path = options.model.empty() ? default_model() : options.model;
  auto file = exec::load_model(path);
  if (!file) return failure(std::move(file.error()));
  auto tokenizer = exec::Tokenizer::make(file->tokenizer);
  if (!tokenizer) return failure(std::move(tokenizer.error()));
  return LoadedModel{std::make_shared<const exec::ModelFile>(std::move(*file)), std::move(*tokenizer)};
}

Expected<Cpu> make_cpu(const std::string& isa, int threads, const std::string& pool) {
  Parallel parallel = inlay::threads(threads);
#if defined(_OPENMP)
  if (pool == "openmp") parallel = openmp(threads);
#else
  (void)pool;
#endif
  if (isa.empty()) return Cpu(parallel);
  const auto level = available_isa(isa);
  if (!level) return failure(level.error().code(), "--isa: " + std::string(level.error().message()));
  return Cpu(*level, parallel);
}

Expected<exec::Eager> make_runner(const ModelOptions& options, const std::string& backend) {
  if (backend.find('+') != backend.npos)
    return failure(
        invalid("--backend is " + backend + ", two devices at once; it must be one here: see inlay devices"));
  if (Status status = check_of_two(options); !status.ok()) return failure(std::move(status));
  if (options.rounding.f16_on_npu() && options.backend != "npu" && options.backend != "cpu+npu")
    return failure(invalid("--activations is f16, which is --backend npu's; with --backend " + options.backend +
                           " it must be exact, int8 or bf16"));
  if (backend == "reference") return exec::Eager(Reference{});
#ifdef INLAY_HAS_CL
  if (backend == "cl") {
    auto cl = Cl::make({.device = options.device});
    if (!cl) return failure(std::move(cl.error()));
    return exec::Eager(std::move(*cl));
  }
#endif
  auto cpu = make_cpu(options.isa, options.threads, options.pool);
  if (!cpu) return failure(std::move(cpu.error()));
  if (options.own_threads != nullptr && options.pool == "inlay")
    *cpu = Cpu(cpu->isa(), options.own_threads->parallel());
  if (options.timeline != nullptr) *cpu = Cpu(cpu->isa(), options.timeline->over(cpu->parallel()));
#ifdef INLAY_HAS_NPU
  if (backend == "npu") {  // what it declines runs on the CPU
    const NpuActivations activations = options.rounding.f16_on_npu() ? NpuActivations::f16 : NpuActivations::exact;
    auto npu = Npu::make({.device = options.device, .activations = activations});
    if (!npu) return failure(std::move(npu.error()));
    return exec::Eager(std::move(*npu), std::move(*cpu));
  }
#endif
  return exec::Eager(std::move(*cpu));
}

exec::RankCut::By cut_of(const ModelOptions& options) {
  return options.cut == "rows" ? exec::RankCut::By::rows : exec::RankCut::By::columns;
}

namespace {

exec::Session::Options session_options(const ModelOptions& options, const exec::ModelFile* file) {
  return {.context = options.context,
          .chunk = options.chunk,
          .kv_type = kv_type(options, file),
          .activations = options.rounding.of_linears(),
          .attention = options.rounding.of_attention(),
          .plans = options.plans,
          .comm = options.comm,
          .cut = cut_of(options)};
}

// What a rank has of a model with random weights: make(config, weights, run, options).
template <class Made, class Make>
Expected<Made> of_random_model(const ModelOptions& options, const exec::ModelConfig& config, const std::string& type,
                               const Room& room, Make&& make) {
  return on_devices<Made>(options, options.backend, options.chunks_at_once, [&](auto run) -> Expected<Made> {
    auto cut = exec::RankCut::make(config, options.comm.rank, options.comm.size, cut_of(options));
    if (!cut) return failure(std::move(cut.error()));
    auto weights = exec::random_weights(config, type, run.parallel(), 1, *cut);
    if (!weights) return failure(std::move(weights.error()));
    exec::Session::Options of_session = session_options(options, nullptr);
    of_session.context = room.context, of_session.chunk = room.chunk;
    of_session.plans = exec::Session::Options().plans;
    return make(cut->config(), std::move(*weights), std::move(run), of_session);
  });
}

}  // namespace

Expected<exec::Session> make_session(const ModelOptions& options, std::shared_ptr<const exec::ModelFile> file,
                                     const std::string& backend) {
  Progress progress("packing weights");
  const auto tell = [&](index done, index all) { progress(done, all); };
  const exec::Session::Options of_session = session_options(options, file.get());
  return on_devices<exec::Session>(options, backend, options.chunks_at_once, [&](auto run) -> Expected<exec::Session> {
    if constexpr (std::is_same_v<decltype(run), exec::Eager>)
      if (options.scales.empty()) return exec::Session::make(std::move(file), std::move(run), of_session, tell);
    const exec::ModelConfig config = file->config;
    auto weights = load_scaled(options, std::move(file), run.parallel(), tell);
    if (!weights) return failure(std::move(weights.error()));
    return exec::Session::make(config, std::move(*weights), std::move(run), of_session);
  });
}

Expected<exec::Weights> load_scaled(const ModelOptions& options, std::shared_ptr<const exec::ModelFile> file,
                                    const Parallel& parallel, const std::function<void(index, index)>& progress) {
  const exec::ModelConfig config = file->config;
  auto weights = exec::load_weights(std::move(file), parallel, progress);
  if (!weights || options.scales.empty()) return weights;
  auto text = read_option("--scales", options.scales);
  if (!text) return failure(std::move(text.error()));
  const auto ranges = exec::ActivationRanges::from_json(*text);
  if (!ranges) return failure(ranges.error().code(), "--scales: " + std::string(ranges.error().message()));
  Status status = ranges->apply(config, *weights);
  if (!status.ok()) return failure(status.code(), "--scales: " + std::string(status.message()));
  return weights;
}

Status follow_session(const ModelOptions& options) {
  auto runner = make_runner(options, options.backend);
  if (!runner) return std::move(runner.error());
  auto file = exec::load_model(options.model.empty() ? default_model() : options.model);
  if (!file) return std::move(file.error());
  const exec::Session::Options of_session = session_options(options, &*file);
  return exec::Session::follow(std::make_shared<const exec::ModelFile>(std::move(*file)), std::move(*runner),
                               of_session);
}

Expected<exec::Session> make_random_session(const ModelOptions& options, const exec::ModelConfig& config,
                                            const std::string& type, const Room& room) {
  return of_random_model<exec::Session>(
      options, config, type, room,
      [](const exec::ModelConfig& own, exec::Weights weights, auto run, const exec::Session::Options& of_session) {
        return exec::Session::make(own, std::move(weights), std::move(run), of_session);
      });
}

Status follow_random_session(const ModelOptions& options, const exec::ModelConfig& config, const std::string& type,
                             const Room& room) {
  Status followed;
  auto made = of_random_model<bool>(options, config, type, room,
                                    [&](const exec::ModelConfig& own, exec::Weights weights, auto run,
                                        const exec::Session::Options& of_session) -> Expected<bool> {
                                      followed =
                                          exec::Session::follow(own, std::move(weights), std::move(run), of_session);
                                      return true;
                                    });
  return made ? std::move(followed) : std::move(made.error());
}

Progress::Progress(std::string what) : what_(std::move(what)), begin_(now()) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void Progress::operator()(index done, index all) {
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal || now() - begin_ < 1) return;
  constexpr int width = 30;
  const int filled = all > 0 ? static_cast<int>(width * done / all) : 0;
  std::fprintf(stderr, "\r%s [%-*s] %ld/%ld", what_.c_str(), width, std::string(filled, '#').c_str(),
               static_cast<long>(done), static_cast<long>(all));
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace inlay::tools
