// One sequence of one model: its place in the cache and the logits of its last tokens.
//
//   auto session = Session::make(file, Eager(Cpu()), {});              // inlay/exec/eager.hpp
//   Status status = session->append(prompt);
//   auto token = session->sample({.logits = {}, .tokens = {}, .temperature = 0});
//   status = session->decode(*token);
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <inlay/exec/engine.hpp>
#include <inlay/exec/sampler.hpp>

namespace inlay::exec {

class ModelFile;

class Session {
 public:
  struct Options {
    index context = 0;           // 0: the model's
    index chunk = 256;           // tokens of a prompt in one pass
    DType kv_type = DType::f16;  // f32 f16 bf16; i8 but for latent attention
    index block_size = 16;
    Activations activations = Activations::exact;                // what linears multiply with
    AttentionCompute attention = AttentionCompute::exact_float;  // of prompts
    Plans plans = EngineOptions().plans;                         // which passes are captured and replayed
    Comm comm = {};                          // several ranks: rank 0 has the session, the others follow()
    RankCut::By cut = RankCut::By::columns;  // of those, of a model that is a file
  };

  static Expected<Session> make(
      std::shared_ptr<const ModelFile> file, Eager run, const Options& options,
      const std::function<void(index, index)>& progress = [](index, index) {});
  // Weights that come from elsewhere, random ones of a benchmark; an Eager, or a chain of other backends (make_engine).
  template <class Run>
  static Expected<Session> make(const ModelConfig& config, Weights weights, Run run, const Options& options) {
    const Options whole = completed(options, config);
    const std::size_t linear_bytes = weights.linear_bytes;
    auto engine = engine_of(config, std::move(weights), std::move(run), whole);
    if (!engine) return failure(std::move(engine.error()));
    return Session(std::move(*engine), whole, linear_bytes);
  }

  // What a rank but 0 does of several (Options::comm): computes along with the session of rank 0, until that ends.
  static Status follow(std::shared_ptr<const ModelFile> file, Eager run, const Options& options);
  template <class Run>
  static Status follow(const ModelConfig& config, Weights weights, Run run, const Options& options) {
    auto engine = engine_of(config, std::move(weights), std::move(run), completed(options, config));
    return engine ? follow(**engine, options.comm) : std::move(engine.error());
  }

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const ModelConfig& config() const;
  index context() const { return options_.context; }
  index length() const { return sequence_.length; }
  std::size_t cache_bytes() const;
  std::size_t linear_bytes() const { return linear_bytes_; }  // what one token reads of the linears
  // Operators that the first backend declined, each once.
  std::span<const Fallback> fallbacks() const;

  // As Engine's.
  void use_plans(Plans plans);
  void observe(StepObserver* observer);
  const PlanCache::Counts& plan_counts() const;

  void reset();
  // Forgets what lies behind the first `length` tokens: another text may go on there. There are no logits then.
  Status truncate(index length);

  // Appends tokens in chunks; the logits of the last `rows` of them can be asked for. `progress(done, all)` after
  // each chunk. Where `interrupted()` says so before one, those before it stay, as length() tells, and there are no
  // logits.
  Status append(
      const std::vector<Token>& tokens, index rows = 1,
      const std::function<void(index, index)>& progress = [](index, index) {},
      const std::function<bool()>& interrupted = [] { return false; });

  // One more token of the text, by the kernels for decoding.
  Status decode(Token token);

  // Of the last append or decode, copied to the host: [rows, vocab] f32, valid until the next call.
  Expected<ConstView<2>> logits();

  // The token after the last one (Sampler).
  Expected<Token> sample(const Sampling<Host>& settings, std::span<const LogitBias> biases = {});

 private:
  Session(std::unique_ptr<Engine> engine, const Options& options, std::size_t linear_bytes);

  template <class Run>
  static Expected<std::unique_ptr<Engine>> engine_of(const ModelConfig& config, Weights weights, Run run,
                                                     const Options& options) {
    if (Status status = check(options, config); !status.ok()) return failure(std::move(status));
    return make_engine(config, std::move(weights), std::move(run), engine_options(config, options));
  }
  static Status follow(Engine& engine, const Comm& comm);
  static Options completed(Options options, const ModelConfig& config);
  static Status check(const Options& options, const ModelConfig& config);
  static EngineOptions engine_options(const ModelConfig& config, const Options& options);

  Status check(std::span<const Token> tokens) const;
  // The chunks of a prompt from token `begin` on that are computed at once; its last `rows` tokens have logits.
  Status append_chunks(std::span<const Token> tokens, index rows, index begin);

  std::unique_ptr<Engine> engine_;
  Options options_;
  std::size_t linear_bytes_ = 0;
  Sequence sequence_;
  Batch batch_;                // of a token
  std::vector<Batch> chunks_;  // of a prompt
  index rows_ = 0;             // of logits
  Sampler sampler_;
};

}  // namespace inlay::exec
