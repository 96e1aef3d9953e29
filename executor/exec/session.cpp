#include <inlay/exec/session.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/cpu.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::exec {
namespace {

Status no_logits() { return invalid("there are no logits; tokens must be appended first"); }

}  // namespace

Session::Session(std::unique_ptr<Engine> engine, const Options& options, std::size_t linear_bytes)
    : engine_(std::move(engine)), options_(options), linear_bytes_(linear_bytes) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const ModelConfig& Session::config() const { return engine_->config(); }
std::size_t Session::cache_bytes() const { return engine_->cache_bytes(); }
std::span<const Fallback> Session::fallbacks() const { return engine_->fallbacks(); }
void Session::reset() {
  engine_->blocks().release(sequence_);
  rows_ = 0;
}
Expected<ConstView<2>> Session::logits() {
  if (rows_ < 1) return failure(no_logits());
  return engine_->logits(rows_);
}

Session::Options Session::completed(Options options, const ModelConfig& config) {
  if (options.context <= 0 || options.context > config.context) options.context = config.context;
  return options;
}

Status Session::check(const Options& options) {
  if (options.chunk < 1) return invalid("chunk is " + std::to_string(options.chunk) + "; it must be at least 1");
  if (options.block_size < 1)
    return invalid("block_size is " + std::to_string(options.block_size) + "; it must be at least 1");
  return {};
}

EngineOptions Session::engine_options(const ModelConfig& config, const Options& options) {
  return {.max_tokens = std::min(options.chunk, options.context),
          .activations = options.activations,
          .attention = options.attention,
          .cache = {.layers = config.layers,
                    .kv_heads = config.kv_heads,
                    .head_dim = config.head_dim,
                    .dtype = options.kv_type,
                    .block_size = options.block_size,
                    .blocks = (options.context + options.block_size - 1) / options.block_size}};
}

Expected<Session> Session::make(std::shared_ptr<const ModelFile> file, Eager run, const Options& options,
                                const std::function<void(index, index)>& progress) {
  if (Status status = check(options); !status.ok()) return failure(std::move(status));
  const ModelConfig config = file->config;
  auto weights = load_weights(std::move(file), run.parallel(), progress);
  if (!weights) return failure(std::move(weights.error()));
  return make(config, std::move(*weights), std::move(run), options);
}

Expected<Session> Session::make(const ModelConfig& config, Weights weights, Eager run, const Options& options) {
  return std::visit(
      [&]<class C>(C&& chain) { return make(config, std::move(weights), std::forward<C>(chain), options); },
      std::move(run).release());
}

Status Session::append(const std::vector<Token>& tokens, index rows, const std::function<void(index, index)>& progress,
                       const std::function<bool()>& interrupted) {
  const index count = static_cast<index>(tokens.size());
  if (count < 1) return invalid("there are no tokens; there must be at least 1");
  if (rows < 1 || rows > count)
    return invalid("rows is " + std::to_string(rows) + "; it must be in 1.." + std::to_string(count));
  if (length() + count > context())
    return invalid("the text has " + std::to_string(length() + count) + " tokens; it must fit the context of " +
                   std::to_string(context()));
  if (Status status = engine_->reserve_logits(rows); !status.ok()) return status;
  rows_ = rows;
  for (index begin = 0; begin < count; begin += options_.chunk) {
    if (interrupted()) {
      rows_ = 0;
      return {};
    }
    const index size = std::min(options_.chunk, count - begin);
    // Rows of the logits that this chunk holds.
    const index first = std::max(begin, count - rows), wanted = std::max<index>(begin + size - first, 0);
    if (Status status = pass(Phase::prefill, std::span(tokens).subspan(static_cast<std::size_t>(begin), size),
                             first - (count - rows), wanted);
        !status.ok())
      return status;
    progress(begin + size, count);
  }
  return {};
}

Status Session::decode(Token token) {
  if (length() + 1 > context()) return invalid("the context of " + std::to_string(context()) + " tokens is full");
  if (Status status = engine_->reserve_logits(1); !status.ok()) return status;
  rows_ = 1;
  return pass(Phase::decode, {&token, 1}, 0, 1);
}

Status Session::truncate(index length) {
  if (length < 0 || length > sequence_.length)
    return invalid("length is " + std::to_string(length) + "; it must be in 0.." + std::to_string(sequence_.length) +
                   ", the tokens that there are");
  sequence_.length = length;
  rows_ = 0;
  return {};
}

Expected<Token> Session::sample(const Sampling<Host>& settings, std::span<const LogitBias> biases) {
  if (rows_ < 1) return failure(no_logits());
  if (settings.probs.present()) return failure(invalid("probs is given; it must be left out: the logits stay inside"));
  if (biases.empty()) return engine_->sample(settings, rows_ - 1);
  auto logits = engine_->logits(rows_);
  if (!logits) return failure(std::move(logits.error()));
  const index vocab = config().vocab;
  const float* const last = logits->as<float>() + (rows_ - 1) * vocab;
  biased_.assign(last, last + vocab);
  for (const LogitBias& each : biases) {
    if (each.token < 0 || each.token >= vocab)
      return failure(invalid("the token of a logit bias is " + std::to_string(each.token) + "; it must be in 0.." +
                             std::to_string(vocab - 1)));
    if (!(each.bias < std::numeric_limits<float>::infinity()))
      return failure(invalid("the bias of token " + std::to_string(each.token) + " is " + std::to_string(each.bias) +
                             "; it must be finite or -infinity"));
    biased_[static_cast<std::size_t>(each.token)] += each.bias;
  }
  std::int32_t token = -1;
  Sampling<Host> sampling = settings;
  sampling.logits = {biased_.data(), {1, vocab}};
  sampling.tokens = {&token, {1}};
  const Cpu cpu(serial());
  std::vector<std::byte, CacheLineAllocator<std::byte>> scratch(workspace_bytes(cpu, sampling));
  if (Status status = run(cpu, sampling, {scratch.data(), scratch.size()}); !status.ok())
    return failure(std::move(status));
  return token;
}

Status Session::pass(Phase phase, std::span<const Token> tokens, index first, index count) {
  for (Token token : tokens)
    if (token < 0 || token >= config().vocab)
      return invalid("token is " + std::to_string(token) + "; it must be in 0.." + std::to_string(config().vocab - 1));
  Batch batch(phase);
  if (Status status = batch.add(engine_->blocks(), sequence_, tokens); !status.ok()) return status;
  Status status = engine_->forward(batch, first, count);
  if (status.ok()) sequence_.length += batch.size();
  return status;
}

}  // namespace inlay::exec
