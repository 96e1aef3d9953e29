// Many texts of one model at once: who asks is answered token by token, as alone, bit for bit.
//
//   auto server = Server::make(file, Eager(Cpu()), tokenizer, {});
//   server->submit({.prompt = *tokenizer.encode("Once upon"),
//                   .n = 2,
//                   .emit = [](index choice, Token token) { ...; return true; }});
//   while (!server->idle()) status = server->step();
//
// One thread calls it. What a function of a text does must not call the server, but for submit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <inlay/exec/sampler.hpp>
#include <inlay/exec/serve/batcher.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

class ModelFile;

// A text that is asked for, or `n` of one prompt, which is computed once: its choices.
struct TextRequest {
  enum class End { tokens, stop, context, caller, failed };

  std::vector<Token> prompt;
  index n = 1;              // the i-th choice, from 0 on, is the text that the seed sampling.seed + i gives alone
  index tokens = 128;       // new ones of each, at most
  bool ignore_eos = false;  // a token that ends texts is like any other
  Sampling<Host> sampling = {.logits = {}, .tokens = {}, .temperature = 0};  // as generate() takes it
  std::vector<LogitBias> biases = {};
  // It shares nothing of the cache with a text of another salt: the name of a user, for example.
  std::string cache_salt = {};
  // Each new token of a choice; false ends that text.
  std::function<bool(index choice, Token)> emit = [](index, Token) { return true; };
  // No function is called behind it for this choice. The status is that of a text that failed.
  std::function<void(index choice, End, const Status&)> ended = [](index, End, const Status&) {};
};

class Server {
 public:
  struct Options {
    index context = 0;       // of a text; 0: the model's
    index cache_tokens = 0;  // of all texts that run, in whole blocks; 0: four times the context, or of fewer requests
    index swap_tokens = 0;   // of texts that were preempted, in host memory, where the device has memory of its own
    Batcher::Options batch = {};
    DType kv_type = DType::f16;  // f32 f16 bf16; i8 but for latent attention
    index block_size = 16;
    Activations activations = Activations::exact;                // what linears multiply with
    AttentionCompute attention = AttentionCompute::exact_float;  // of prompts
    Plans plans = EngineOptions().plans;                         // which passes are captured and replayed
    Comm comm = {};                                              // several ranks, as Session::Options has them
    RankCut::By cut = RankCut::By::columns;
  };

  static Expected<Server> make(
      std::shared_ptr<const ModelFile> file, Eager run, Tokenizer tokenizer, const Options& options,
      const std::function<void(index, index)>& progress = [](index, index) {});
  // Weights that come from elsewhere; an Eager, a chain of other backends, or two devices at once (make_engine).
  template <class Run>
  static Expected<Server> make(const ModelConfig& config, Weights weights, Run run, Tokenizer tokenizer,
                               const Options& options) {
    const Options whole = completed(options, config);
    if (Status status = check(whole, config); !status.ok()) return failure(std::move(status));
    auto engine = make_engine(config, std::move(weights), std::move(run), engine_options(config, whole));
    if (!engine) return failure(std::move(engine.error()));
    if (Status status = (*engine)->reserve_logits(whole.batch.requests); !status.ok())
      return failure(std::move(status));
    return Server(std::move(*engine), std::move(tokenizer), whole);
  }
  // What a rank but 0 does of several: computes along with the server of rank 0, until that ends.
  static Status follow(std::shared_ptr<const ModelFile> file, Eager run, const Options& options);

  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();

  const ModelConfig& config() const { return engine_->config(); }
  index context() const { return options_.context; }
  std::size_t cache_bytes() const { return engine_->cache_bytes(); }
  std::span<const Fallback> fallbacks() const { return engine_->fallbacks(); }
  const Batcher& batcher() const { return *batcher_; }
  bool idle() const { return texts_.empty(); }
  // Texts that have not ended: those of the batcher, and choices that wait for their prompt.
  index texts() const { return static_cast<index>(texts_.size()); }
  // Tokens of prompts that passes computed; those of a preempted text count each time.
  index prompt_tokens_computed() const { return prompt_tokens_computed_; }

  // A number for abort; the i-th choice has the number + i. Refused, before anything is done, is what could never be
  // answered.
  Expected<index> submit(TextRequest text);
  // It ends as the caller's, if it has not ended; other choices of its prompt go on.
  void abort(index text);
  // One forward pass, and a token of each text that has caught up. A failure is the backend's: nothing is computed, and
  // all texts stay.
  Status step();

 private:
  struct Text;

  Server(std::unique_ptr<Engine> engine, Tokenizer tokenizer, const Options& options);

  static Options completed(Options options, const ModelConfig& config);
  static Status check(const Options& options, const ModelConfig& config);
  static EngineOptions engine_options(const ModelConfig& config, const Options& options);

  // The choices of the text's request that wait for its prompt, in order.
  std::vector<Text*> waiting_for(const Text& text) const;
  Sampling<Host> settings(const Text& text, const Text& prompt) const;
  // Tokens for all that advance and whose logits are as the engine has them, at once.
  void draw_all();
  // The logits of the text's last token are row `row`: a token for it, and for those that waited for its prompt.
  void draw(Text& text, index row);
  void advance(Text& text, index row);
  void end(Text& text, TextRequest::End how, const Status& status = {});

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Options options_;
  std::unique_ptr<Batcher> batcher_;
  std::vector<std::unique_ptr<Text>> texts_;  // by rank
  index ranks_ = 0;
  index prompt_tokens_computed_ = 0;
  Batch batch_;
  std::vector<Text*> advancing_, drawing_;
  std::vector<Engine::Draw> draws_;  // of those that are drawing_
  Sampler sampler_;
};

}  // namespace inlay::exec
