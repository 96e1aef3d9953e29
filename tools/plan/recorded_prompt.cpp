#include "tools/plan/recorded_prompt.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <inlay/cpu.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/random_weights.hpp>

#include "tools/model_shapes.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

bool is_shape(const std::string& model) {
  const auto names = model_shapes();
  return std::find(names.begin(), names.end(), model) != names.end();
}

std::string file_of(const std::string& model) { return model.empty() ? default_model() : model; }

}  // namespace

Expected<exec::ModelConfig> planned_config(const std::string& model) {
  if (is_shape(model)) return model_shape(model);
  auto file = exec::load_model(file_of(model));
  if (!file) return failure(std::move(file.error()));
  return std::move(file->config);
}

Expected<PlannedModel> planned_model(const std::string& model, const Parallel& parallel) {
  if (is_shape(model)) {
    auto config = model_shape(model);
    auto weights = exec::random_weights(*config, "w4a16", parallel);
    if (!weights) return failure(std::move(weights.error()));
    return PlannedModel{std::move(*config), std::move(*weights)};
  }
  auto file = exec::load_model(file_of(model));
  if (!file) return failure(std::move(file.error()));
  auto shared = std::make_shared<const exec::ModelFile>(std::move(*file));
  auto weights = exec::load_weights(shared, parallel);
  if (!weights) return failure(std::move(weights.error()));
  return PlannedModel{shared->config, std::move(*weights)};
}

Expected<std::unique_ptr<RecordedPrompt>> RecordedPrompt::record(PlannedModel model, index tokens, index chunk) {
  std::unique_ptr<RecordedPrompt> prompt(new RecordedPrompt);
  prompt->config_ = model.config;
  const exec::ModelConfig& config = prompt->config_;
  auto decoder = exec::Decoder<>::make(config, std::move(model.weights), std::min(chunk, tokens), prompt->tensors_);
  if (!decoder) return failure(std::move(decoder.error()));
  prompt->decoder_.emplace(std::move(*decoder));
  const exec::BlockPool::Shape cache = exec::cache_shape(config, DType::f16, 16, tokens);
  auto pool = exec::KvPool<>::make(cache, prompt->tensors_);
  if (!pool) return failure(std::move(pool.error()));
  prompt->pool_.emplace(std::move(*pool));
  prompt->logits_.resize(static_cast<std::size_t>(config.vocab));
  const View<2> logits(prompt->logits_.data(), {1, config.vocab});
  const std::vector<exec::Token> ids = any_prompt(tokens, config.vocab);
  for (index begin = 0, i = 0; begin < tokens; begin += chunk, ++i) {
    const index count = std::min(chunk, tokens - begin);
    exec::Batch batch;
    const auto part = std::span(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    if (Status status = batch.add_prompt(*prompt->pool_, prompt->text_, part, 1); !status.ok())
      return failure(std::move(status));
    prompt->text_.length += count;
    auto params = exec::Params::make(config, cache, std::min(chunk, tokens));
    if (!params) return failure(std::move(params.error()));
    if (Status status = params->commit(batch.views()); !status.ok()) return failure(std::move(status));
    prompt->params_.push_back(std::move(*params));
    const index first = prompt->graph_.size();
    exec::GraphRecorder<Cpu> record(prompt->graph_, i);
    prompt->decoder_->forward(record, *prompt->pool_, prompt->params_.back().views(), logits);
    if (Status status = record.take_status(); !status.ok()) return failure(std::move(status));
    for (exec::GraphStep& step : prompt->graph_.steps().subspan(static_cast<std::size_t>(first)))
      prompt->count_tokens(step, count);
    prompt->seen_.push_back(begin + count);
  }
  std::vector<ByteRange> kept{byte_range(logits)};
  for (index layer = 0; layer < config.layers; ++layer) {
    const auto of = prompt->pool_->layer(layer);
    kept.push_back(byte_range(of.k));
    kept.push_back(byte_range(of.v));
  }
  prompt->edges_.emplace(exec::Edges::of(exec::Arena(prompt->graph_.accesses(), kept).apart()));
  return prompt;
}

// What attention writes is one row to it, and what goes into the cache as many as that has blocks: here both have a row
// for each token, so that a profile of other lengths knows them.
void RecordedPrompt::count_tokens(exec::GraphStep& step, index tokens) const {
  const bool attends = step.name == "flash_attention";
  if (!attends && step.name != "reshape_and_cache") return;
  step.rows = tokens;
  step.width = attends ? config_.heads * config_.value_dim() : config_.kv_heads * config_.head_dim;
}

std::optional<exec::LinearShape> RecordedPrompt::linear(const exec::GraphStep& step) const {
  if (!step.name.starts_with("linear")) return std::nullopt;
  for (const exec::Access& access : step.accesses)
    if (access.field == "x")  // rows of f32
      return exec::LinearShape{.outputs = step.width,
                               .inputs = access.rows * access.span / static_cast<index>(sizeof(float)) / step.rows,
                               .tokens = step.rows};
  return std::nullopt;
}

StepWork RecordedPrompt::work(const exec::GraphStep& step) const {
  const index tokens = seen_.back(), seen = seen_[static_cast<std::size_t>(step.chunk)];
  const double of_cache = static_cast<double>(seen) / static_cast<double>(tokens);
  StepWork work;
  for (const exec::Access& access : step.accesses) {
    double bytes = static_cast<double>(access.rows * access.span);
    const bool cached = access.field.starts_with("k_cache") || access.field.starts_with("v_cache");
    if (cached) bytes *= static_cast<double>(step.rows) / static_cast<double>(tokens);
    if (step.name == "flash_attention" && (access.field == "k" || access.field == "v")) bytes *= of_cache;
    // Of a table only rows are read, at most as wide as floats.
    if (step.name == "embedding" && access.field == "table") bytes = std::min(bytes, written_bytes(step));
    work.bytes += bytes;
  }
  work.flops = static_cast<double>(step.rows * step.width);
  if (const auto shape = linear(step)) work.flops *= 2 * static_cast<double>(shape->inputs);
  if (step.name == "flash_attention")
    work.flops = 4 * static_cast<double>(step.rows * seen * config_.heads * config_.head_dim);
  return work;
}

double RecordedPrompt::written_bytes(const exec::GraphStep& step) {
  return static_cast<double>(step.rows * step.width) * sizeof(float);
}

}  // namespace inlay::tools
