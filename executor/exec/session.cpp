#include <inlay/exec/session.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/kv_pool.hpp>

#include "executor/exec/own_weights.hpp"

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
void Session::use_plans(Plans plans) { engine_->use_plans(plans); }
void Session::observe(StepObserver* observer) { engine_->observe(observer); }
const PlanCache::Counts& Session::plan_counts() const { return engine_->plan_counts(); }
void Session::reset() {
  engine_->blocks().release(sequence_);
  rows_ = 0;
}
Expected<ConstView<2>> Session::logits() {
  if (rows_ < 1) return failure(no_logits());
  return engine_->logits(0, rows_);
}

Session::Options Session::completed(Options options, const ModelConfig& config) {
  if (options.context <= 0 || options.context > config.context) options.context = config.context;
  return options;
}

Status Session::check(const Options& options, const ModelConfig& config) {
  if (options.chunk < 1) return invalid("chunk is " + std::to_string(options.chunk) + "; it must be at least 1");
  if (options.block_size < 1)
    return invalid("block_size is " + std::to_string(options.block_size) + "; it must be at least 1");
  return check_kv_type(config, options.kv_type);
}

EngineOptions Session::engine_options(const ModelConfig& config, const Options& options) {
  return {.max_tokens = std::min(options.chunk, options.context),
          .context = options.context,
          .activations = options.activations,
          .attention = options.attention,
          .cache = cache_shape(config, options.kv_type, options.block_size, options.context),
          .plans = options.plans,
          .comm = options.comm};
}

Expected<Session> Session::make(std::shared_ptr<const ModelFile> file, Eager run, const Options& options,
                                const std::function<void(index, index)>& progress) {
  if (Status status = check(options, file->config); !status.ok()) return failure(std::move(status));
  auto own = load_own(std::move(file), run.parallel(), options.comm, options.cut, progress);
  if (!own) return failure(std::move(own.error()));
  return make(own->config, std::move(own->weights), std::move(run), options);
}

Status Session::follow(std::shared_ptr<const ModelFile> file, Eager run, const Options& options) {
  auto own = load_own(std::move(file), run.parallel(), options.comm, options.cut, [](index, index) {});
  if (!own) return std::move(own.error());
  return follow(own->config, std::move(own->weights), std::move(run), options);
}

Status Session::follow(Engine& engine, const Comm& comm) { return exec::follow(engine, comm); }

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
  for (index begin = 0; begin < count;) {
    if (interrupted()) {
      rows_ = 0;
      return {};
    }
    const index computed = sequence_.length;
    if (Status status = append_chunks(tokens, rows, begin); !status.ok()) {
      sequence_.length = computed;
      return status;
    }
    begin += sequence_.length - computed;
    progress(begin, count);
  }
  return {};
}

// As many chunks as the engine computes at once.
Status Session::append_chunks(std::span<const Token> tokens, index rows, index begin) {
  const index count = std::ssize(tokens);
  chunks_.resize(static_cast<std::size_t>(engine_->passes_at_once()));
  std::vector<Engine::Pass> passes;
  for (Batch& batch : chunks_) {
    if (begin == count) break;
    const index size = std::min(options_.chunk, count - begin);
    // Rows of the logits that this chunk holds.
    const index first = std::max(begin, count - rows), wanted = std::max<index>(begin + size - first, 0);
    const auto chunk = tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
    if (Status status = check(chunk); !status.ok()) return status;
    batch.clear();
    if (Status status = batch.add_prompt(engine_->blocks(), sequence_, chunk, wanted); !status.ok()) return status;
    sequence_.length += size;
    passes.push_back({&batch, first - (count - rows)});
    begin += size;
  }
  return engine_->forward_all(passes);
}

Status Session::decode(Token token) {
  if (length() + 1 > context()) return invalid("the context of " + std::to_string(context()) + " tokens is full");
  if (Status status = engine_->reserve_logits(1); !status.ok()) return status;
  rows_ = 1;
  if (Status status = check({&token, 1}); !status.ok()) return status;
  batch_.clear();
  if (Status status = batch_.add_generated(engine_->blocks(), sequence_, {&token, 1}); !status.ok()) return status;
  Status status = engine_->forward(batch_, 0);
  if (status.ok()) ++sequence_.length;
  return status;
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
  return sampler_(*engine_, rows_ - 1, settings, biases);
}

Status Session::check(std::span<const Token> tokens) const {
  for (Token token : tokens)
    if (token < 0 || token >= config().vocab)
      return invalid("token is " + std::to_string(token) + "; it must be in 0.." + std::to_string(config().vocab - 1));
  return {};
}

}  // namespace inlay::exec
