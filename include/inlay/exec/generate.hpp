// From a prompt to text: chunked prefill, then one token at a time.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

// One sequence of one model: its place in the cache and the logits of its last token.
class Session {
 public:
  struct Options {
    index context = 0;  // 0: the model's
    index chunk = 256;  // tokens of a prompt in one pass
    DType kv_type = DType::f16;
    index block_size = 16;
    Activations activations = Activations::exact;  // what linears of 4- and 8-bit codes multiply with
  };

  static Expected<Session> make(
      std::shared_ptr<const ModelFile> file, Eager run, Options options,
      const std::function<void(index, index)>& progress = [](index, index) {}) {
    const ModelConfig config = file->config;
    if (options.context <= 0 || options.context > config.context) options.context = config.context;
    if (options.chunk < 1)
      return failure(StatusCode::invalid_argument,
                     "chunk is " + std::to_string(options.chunk) + "; it must be at least 1");
    auto weights = load_weights(std::move(file), run.parallel(), progress);
    if (!weights) return failure(std::move(weights.error()));
    return make(config, std::move(*weights), std::move(run), options);
  }

  // Weights that come from elsewhere: random ones of a benchmark.
  static Expected<Session> make(const ModelConfig& config, Weights weights, Eager run, const Options& options) {
    const index chunk = std::min(options.chunk, options.context);
    auto decoder = Decoder::make(config, std::move(weights), chunk, options.activations);
    if (!decoder) return failure(std::move(decoder.error()));
    auto pool = KvPool::make({.layers = config.layers,
                              .kv_heads = config.kv_heads,
                              .head_dim = config.head_dim,
                              .dtype = options.kv_type,
                              .block_size = options.block_size,
                              .blocks = (options.context + options.block_size - 1) / options.block_size});
    if (!pool) return failure(std::move(pool.error()));
    return Session(std::move(*decoder), std::move(*pool), std::move(run), options);
  }

  const ModelConfig& config() const { return decoder_.config(); }
  const Weights& weights() const { return decoder_.weights(); }
  const KvPool& cache() const { return pool_; }
  index context() const { return options_.context; }
  index length() const { return sequence_.length; }
  Eager& runner() { return run_; }

  void reset() { pool_.release(sequence_); }

  // Appends tokens in chunks and gives the logits of the last `rows` of them, [rows, vocab], valid until
  // the next call. `progress(done, all)` after each chunk.
  Expected<ConstView<2>> append(
      const std::vector<Token>& tokens, index rows = 1,
      const std::function<void(index, index)>& progress = [](index, index) {}) {
    const index count = static_cast<index>(tokens.size());
    if (count < 1) return failure(StatusCode::invalid_argument, "there are no tokens; there must be at least 1");
    if (rows < 1 || rows > count)
      return failure(StatusCode::invalid_argument,
                     "rows is " + std::to_string(rows) + "; it must be in 1.." + std::to_string(count));
    if (length() + count > context())
      return failure(StatusCode::invalid_argument, "the text has " + std::to_string(length() + count) +
                                                       " tokens; it must fit the context of " +
                                                       std::to_string(context()));
    if (Status status = room_for(rows); !status.ok()) return failure(std::move(status));
    for (index begin = 0; begin < count; begin += options_.chunk) {
      const index size = std::min(options_.chunk, count - begin);
      // Rows of the logits that this chunk holds.
      const index first = std::max(begin, count - rows), wanted = std::max<index>(begin + size - first, 0);
      const View<2> part = logits_.view().slice(0, first - (count - rows), wanted);
      Status status = pass(Batch::Phase::prefill, {tokens.data() + begin, static_cast<std::size_t>(size)}, part);
      if (!status.ok()) return failure(std::move(status));
      progress(begin + size, count);
    }
    return ConstView<2>(logits_.view().slice(0, 0, rows));
  }

  // One more token of the text, by the kernels for decoding.
  Expected<ConstView<2>> decode(Token token) {
    if (length() + 1 > context())
      return failure(StatusCode::invalid_argument, "the context of " + std::to_string(context()) + " tokens is full");
    if (Status status = room_for(1); !status.ok()) return failure(std::move(status));
    const View<2> logits = logits_.view().slice(0, 0, 1);
    Status status = pass(Batch::Phase::decode, {&token, 1}, logits);
    if (!status.ok()) return failure(std::move(status));
    return ConstView<2>(logits);
  }

  // The next token by the sampler's settings (views and step are filled in here). `history` is what penalties count:
  // the prompt, then the `step` tokens drawn before; or nothing.
  Expected<Token> sample(const ConstView<2>& logits, Sampling<Host> sampling, const std::vector<Token>& history,
                         index step) {
    const std::int64_t prompt = static_cast<index>(history.size()) - step;
    Token token = 0;
    sampling.logits = logits;
    sampling.tokens = {&token, {1}};
    sampling.step = step;
    if (!history.empty()) {
      sampling.history = {history.data(), {1, static_cast<index>(history.size())}};
      sampling.prompt_lengths = {&prompt, {1}};
    }
    run_(sampling);
    if (Status status = run_.take_status(); !status.ok()) return failure(std::move(status));
    return token;
  }

 private:
  Session(Decoder decoder, KvPool pool, Eager run, const Options& options)
      : decoder_(std::move(decoder)), pool_(std::move(pool)), run_(std::move(run)), options_(options) {}

  Status room_for(index rows) {
    if (logits_.view().present() && logits_.view().extents[0] >= rows) return {};
    auto logits = OwnedTensor<2>::make(DType::f32, {rows, config().vocab});
    if (!logits) return std::move(logits.error());
    logits_ = std::move(*logits);
    return {};
  }

  Status pass(Batch::Phase phase, std::span<const Token> tokens, const View<2>& logits) {
    for (Token token : tokens)
      if (token < 0 || token >= config().vocab)
        return invalid("token is " + std::to_string(token) + "; it must be in 0.." +
                       std::to_string(config().vocab - 1));
    Batch batch;
    batch.phase = phase;
    if (Status status = batch.add(pool_, sequence_, tokens); !status.ok()) return status;
    decoder_.forward(run_, pool_, batch, logits);
    Status status = run_.take_status();
    if (status.ok()) sequence_.length += batch.size();
    return status;
  }

  Decoder decoder_;
  KvPool pool_;
  Eager run_;
  Options options_;
  Sequence sequence_;
  OwnedTensor<2> logits_;
};

struct Generation {
  index prompt_tokens = 0, new_tokens = 0;
  double prefill_seconds = 0;      // the prompt
  double first_token_seconds = 0;  // until the first token was there
  double decode_seconds = 0;       // all further tokens
  enum class End { tokens, stop, context, caller } end = End::tokens;
};

// Appends the prompt and up to `tokens` new ones; `emit(token)` gets each and returns false to end.
// Ends at a token that the tokenizer calls the end, at BOS, and at the end of the context.
template <class Emit>
Expected<Generation> generate(
    Session& session, const Tokenizer& tokenizer, const std::vector<Token>& prompt, index tokens,
    const Sampling<Host>& sampling, Emit&& emit,
    const std::function<void(index, index)>& progress = [](index, index) {}) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  Generation result;
  result.prompt_tokens = static_cast<index>(prompt.size());
  const bool penalised =
      sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0;
  std::vector<Token> history = penalised ? prompt : std::vector<Token>();

  const auto begin = Clock::now();
  auto logits = session.append(prompt, 1, progress);
  if (!logits) return failure(std::move(logits.error()));
  result.prefill_seconds = since(begin);
  auto decoding = begin;
  while (result.new_tokens < tokens) {
    auto token = session.sample(*logits, sampling, history, result.new_tokens);
    if (!token) return failure(std::move(token.error()));
    if (result.new_tokens == 0) {
      result.first_token_seconds = since(begin);
      decoding = Clock::now();
    }
    if (tokenizer.stops(*token) || *token == tokenizer.bos()) {
      result.end = Generation::End::stop;
      break;
    }
    ++result.new_tokens;
    if (!emit(*token)) {
      result.end = Generation::End::caller;
      break;
    }
    if (result.new_tokens == tokens) break;
    if (session.length() == session.context()) {
      result.end = Generation::End::context;
      break;
    }
    if (penalised) history.push_back(*token);
    logits = session.decode(*token);
    if (!logits) return failure(std::move(logits.error()));
  }
  result.decode_seconds = since(decoding);
  return result;
}

}  // namespace inlay::exec
