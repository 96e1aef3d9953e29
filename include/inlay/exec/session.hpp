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

#include <inlay/core/attention.hpp>
#include <inlay/exec/batch.hpp>
#include <inlay/exec/fallback.hpp>
#include <inlay/model/activations.hpp>
#include <inlay/model/model_config.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

class Eager;   // eager.hpp
class Engine;  // engine.hpp
class ModelFile;
struct EngineOptions;
struct Weights;
template <class... Backends> class Chain;

// What is added to the logit of one token.
struct LogitBias {
  Token token;
  float bias;  // finite, or -infinity: the token never comes
};

class Session {
 public:
  struct Options {
    index context = 0;  // 0: the model's
    index chunk = 256;  // tokens of a prompt in one pass
    DType kv_type = DType::f16;
    index block_size = 16;
    Activations activations = Activations::exact;                // what linears multiply with
    AttentionCompute attention = AttentionCompute::exact_float;  // and that of prompts; of decode it is always exact
  };

  static Expected<Session> make(
      std::shared_ptr<const ModelFile> file, Eager run, const Options& options,
      const std::function<void(index, index)>& progress = [](index, index) {});
  // Weights that come from elsewhere: random ones of a benchmark.
  static Expected<Session> make(const ModelConfig& config, Weights weights, Eager run, const Options& options);
  // Backends that Eager does not know, but for Chain<Cl&>: inlay/exec/engine_on.hpp has the definition.
  template <class... Backends>
  static Expected<Session> make(const ModelConfig& config, Weights weights, Chain<Backends...> chain,
                                const Options& options);

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

  // The token after the last one, by these settings, of host memory. Logits and tokens are filled in here; there are
  // no probs. Biases are added to the logits before anything else, on the host.
  Expected<Token> sample(const Sampling<Host>& settings, std::span<const LogitBias> biases = {});

 private:
  Session(std::unique_ptr<Engine> engine, const Options& options, std::size_t linear_bytes);

  static Options completed(Options options, const ModelConfig& config);
  static Status check(const Options& options);
  static EngineOptions engine_options(const ModelConfig& config, const Options& options);

  Status pass(Phase phase, std::span<const Token> tokens, index first, index count);

  std::unique_ptr<Engine> engine_;
  Options options_;
  std::size_t linear_bytes_ = 0;
  Sequence sequence_;
  index rows_ = 0;             // of logits
  std::vector<float> biased_;  // the last of them, with biases
};

}  // namespace inlay::exec
