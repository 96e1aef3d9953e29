// What `run` and `eval` share: the options that name a model, a backend and its threads.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>
#include <inlay/exec/generate.hpp>
#include <inlay/exec/session.hpp>
#include <inlay/model/model_file.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::tools {

// Those that this build has: cpu, cl, npu, reference.
std::vector<std::string> backends();
// And cpu+cl, cpu+npu: two devices at once.
std::vector<std::string> backends_and_pairs();
// --device
void add_device(CLI::App& command, std::string& device);

// --kv-type, of which "auto" is f32 for a file of f32 weights, else f16.
void add_kv_type(CLI::App& command, std::string& kv_type);

// --threads and --pool.
void add_threads(CLI::App& command, int& threads, std::string& pool);

// The words of --plans.
const std::map<std::string, exec::Plans>& plan_modes();
CLI::Validator a_plan_mode();  // its word

// What is multiplied: --activations, "exact", "int8", "bf16" or the npu's "f16", and --attention, "exact" or "bf16".
struct Rounding {
  std::string activations = "exact", attention = "exact";

  void add_to(CLI::App& command);
  exec::Activations of_linears() const;
  bool f16_on_npu() const { return activations == "f16"; }
  AttentionCompute of_attention() const;
};

class Timeline;  // tools/timeline.hpp

struct ModelOptions {
  std::string model;               // empty: the model that ships with Inlay
  std::string backend = "cpu";     // one of backends_and_pairs()
  std::string place;               // with two devices, which operators are the second one's: exec::Placement
  std::string split;               // and how linears of both are cut: exec::SplitWords
  std::string devices;             // --devices, a file by which a solver cuts them
  std::string outliers;            // --outliers, "cpu" or "within"; empty: within
  bool fast_sync = false;          // --fast-sync
  double watchdog = 0;             // --watchdog, in seconds; 0: none
  index chunks_at_once = 4;        // of a prompt, with two devices
  std::string isa;                 // empty: the best
  std::string device;              // of OpenCL; empty: INLAY_CL_DEVICE, else the best. Of the NPU: INLAY_NPU_DEVICE
  std::string kv_type = "auto";    // --kv-type
  int threads = 0;                 // 0: default_width()
  std::string pool = "inlay";      // whose threads: Inlay's, or OpenMP's
  Threads* own_threads = nullptr;  // these in place of the process's pool
  Timeline* timeline = nullptr;    // that sees what they do
  Rounding rounding;
  std::string scales;  // --scales, a file of inlay calibrate
  exec::Plans plans = exec::EngineOptions().plans;
  index chunk = 256;
  index context = 0;  // 0: the model's
  std::string ranks;  // --ranks; empty: one
  std::string cut;    // --cut, "columns" or "rows"; empty: columns
  exec::Comm comm;    // of this one: with_ranks makes it

  void add_to(CLI::App& command);
};

exec::RankCut::By cut_of(const ModelOptions& options);

struct LoadedModel {
  std::shared_ptr<const exec::ModelFile> file;
  exec::Tokenizer tokenizer;
};

// Prints "inlay: <message>" to standard error and gives the exit code of wrong input.
int wrong(const Status& status);
int wrong(const std::string& message);
// What the file holds that an option names.
Expected<std::string> read_option(const std::string& option, const std::string& file);
// Text whole into a file, or to standard output where none is named; the exit code.
int write_output(const std::string& file, const std::string& text);

// The model that ships with Inlay: $INLAY_MODEL, beside the installed program, or in the sources.
std::string default_model();

Expected<LoadedModel> open_model(const ModelOptions& options);
// What --kv-type says, or "auto" means for the model of this file, or for one of none.
DType kv_type(const ModelOptions& options, const exec::ModelFile* file);
// The word of --kv-type for it.
std::string kv_type_word(DType type);
// The level and the threads that were asked for; an unknown level is refused.
Expected<Cpu> make_cpu(const std::string& isa, int threads, const std::string& pool);
Expected<exec::Eager> make_runner(const ModelOptions& options, const std::string& backend);  // inlay/exec/eager.hpp
Expected<exec::Session> make_session(const ModelOptions& options, std::shared_ptr<const exec::ModelFile> file,
                                     const std::string& backend);
// The weights of a file, with --scales.
Expected<exec::Weights> load_scaled(const ModelOptions& options, std::shared_ptr<const exec::ModelFile> file,
                                    const Parallel& parallel, const std::function<void(index, index)>& progress);
// What another rank does while rank 0 has that session.
Status follow_session(const ModelOptions& options);
// A model with random weights: `type` of random_weights, `room` how long texts and passes become.
struct Room {
  index context, chunk;
};
Expected<exec::Session> make_random_session(const ModelOptions& options, const exec::ModelConfig& config,
                                            const std::string& type, const Room& room);
Status follow_random_session(const ModelOptions& options, const exec::ModelConfig& config, const std::string& type,
                             const Room& room);

// A prompt of tokens that differ, for what is measured and not read.
std::vector<exec::Token> any_prompt(index tokens, index vocab);

// A bar on standard error, if that is a terminal and the work takes longer than a second.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  void operator()(index done, index all);

 private:
  std::string what_;
  double begin_;
  bool shown_ = false;
};

}  // namespace inlay::tools
