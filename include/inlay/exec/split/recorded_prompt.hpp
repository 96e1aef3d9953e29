// A prompt of a model in chunks, recorded as one line of steps, with the memory that they look at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/split/step_work.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::exec {

// Of the backends named, steps may be run (StepRunner).
template <class... Backends> class RecordedPrompt {
 public:
  // Chunks of `chunk` tokens, the last one shorter; the logits of the last token of each.
  static Expected<std::unique_ptr<RecordedPrompt>> record(const ModelConfig& config, Weights weights,
                                                          std::span<const std::int32_t> prompt, index chunk) {
    std::unique_ptr<RecordedPrompt> recorded(new RecordedPrompt);
    Status status = recorded->take(config, std::move(weights), prompt, chunk);
    if (!status.ok()) return failure(std::move(status));
    return recorded;
  }

  const ModelConfig& config() const { return decoder_->config(); }
  StepGraph& graph() { return graph_; }
  const StepGraph& graph() const { return graph_; }
  // What outlives the line (Arena): the cache, and the logits.
  const std::vector<ByteRange>& kept() const { return kept_; }
  index chunks() const { return std::ssize(ends_); }
  // Tokens of the prompt, and those until the end of the step's chunk.
  index tokens() const { return ends_.back(); }
  index seen(const GraphStep& step) const { return ends_[static_cast<std::size_t>(step.chunk)]; }
  StepWork work(const GraphStep& step) const { return work_of_prompt(step, config(), seen(step), tokens()); }

 private:
  RecordedPrompt() = default;

  Status take(const ModelConfig& config, Weights weights, std::span<const std::int32_t> prompt, index chunk) {
    const index tokens = std::ssize(prompt);
    auto decoder = Decoder<>::make(config, std::move(weights), std::min(chunk, tokens), tensors_);
    if (!decoder) return std::move(decoder.error());
    decoder_.emplace(std::move(*decoder));
    const BlockPool::Shape cache = cache_shape(config, DType::f16, 16, tokens);
    auto pool = KvPool<>::make(cache, tensors_);
    if (!pool) return std::move(pool.error());
    logits_.resize(static_cast<std::size_t>(config.vocab));
    const View<2> logits(logits_.data(), {1, config.vocab});
    Sequence text;
    for (index begin = 0; begin < tokens; begin += chunk) {
      const index count = std::min(chunk, tokens - begin);
      const auto part = prompt.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
      Batch batch;
      if (Status status = batch.add_prompt(*pool, text, part, 1); !status.ok()) return status;
      text.length += count;
      auto params = Params::make(config, cache, std::min(chunk, tokens));
      if (!params) return std::move(params.error());
      if (Status status = params->commit(batch.views()); !status.ok()) return status;
      params_.push_back(std::move(*params));
      const index first = graph_.size();
      GraphRecorder<Backends...> record(graph_, std::ssize(ends_));
      decoder_->forward(record, *pool, params_.back().views(), logits);
      if (Status status = record.take_status(); !status.ok()) return status;
      for (GraphStep& step : graph_.steps().subspan(static_cast<std::size_t>(first))) count_work(step, begin, count);
      ends_.push_back(begin + count);
    }
    kept_ = pool->ranges();
    kept_.push_back(byte_range(logits));
    return {};
  }

  // What attention writes is one row to it, and what goes into the cache as many as that has blocks: here both have a
  // row for each token, so that a profile of other lengths knows them, and attention how many keys its tokens see.
  void count_work(GraphStep& step, index before, index tokens) const {
    const bool attends = step.name == "flash_attention";
    if (!attends && step.name != "reshape_and_cache") return;
    step.rows = tokens;
    const LayerConfig layer = config().layer(step.layer);
    step.width = attends ? config().heads * config().value_dim(layer) : layer.kv_heads * layer.head_dim;
    if (!attends) return;
    for (index token = before + 1; token <= before + tokens; ++token)
      step.pairs += layer.window > 0 ? std::min(token, layer.window) : token;
  }

  StepGraph graph_;
  std::vector<ByteRange> kept_;
  std::vector<index> ends_;  // of each chunk
  HostTensors tensors_;
  std::optional<Decoder<>> decoder_;  // which keeps the weights
  std::list<Params> params_;
  std::vector<float> logits_;
};

}  // namespace inlay::exec
