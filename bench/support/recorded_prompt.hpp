// A prompt of a model with random weights in chunks, recorded for the backends named.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/model/random_weights.hpp>

namespace inlay::exec {

template <class... Backends> class RecordedPrompt {
 public:
  explicit RecordedPrompt(ModelConfig config) : config_(std::move(config)) {}

  Status record(index chunk, index chunks) {
    chunk_ = chunk;
    auto weights = random_weights(config_, "w4a16", Cpu().parallel());
    if (!weights) return std::move(weights.error());
    auto decoder = Decoder<>::make(config_, std::move(*weights), chunk, tensors_);
    if (!decoder) return std::move(decoder.error());
    decoders_.push_back(std::move(*decoder));
    const BlockPool::Shape cache = cache_shape(config_, DType::f16, 16, chunk * chunks);
    auto pool = KvPool<>::make(cache, tensors_);
    if (!pool) return std::move(pool.error());
    Sequence text;
    const std::vector<std::int32_t> tokens(static_cast<std::size_t>(chunk), 1);
    logits_.resize(static_cast<std::size_t>(config_.vocab));
    for (index i = 0; i < chunks; ++i) {
      Batch batch;
      if (Status status = batch.add_prompt(*pool, text, tokens, 1); !status.ok()) return status;
      text.length += chunk;
      auto params = Params::make(config_, cache, chunk);
      if (!params) return std::move(params.error());
      if (Status status = params->commit(batch.views()); !status.ok()) return status;
      params_.push_back(std::move(*params));
      GraphRecorder<Backends...> record(graph, i);
      decoders_.back().forward(record, *pool, params_.back().views(), View<2>(logits_.data(), {1, config_.vocab}));
      if (Status status = record.take_status(); !status.ok()) return status;
    }
    const auto keep = [&](const auto& view) { kept.push_back(byte_range(view)); };
    for (index layer = 0; layer < config_.layers; ++layer) keep(pool->layer(layer).k), keep(pool->layer(layer).v);
    keep(View<1>(logits_.data(), {config_.vocab}));
    return {};
  }

  StepGraph graph;
  std::vector<ByteRange> kept;

 protected:
  ModelConfig config_;
  index chunk_ = 0;

 private:
  HostTensors tensors_;
  std::list<Decoder<>> decoders_;  // which keep the weights
  std::list<Params> params_;
  std::vector<float> logits_;
};

}  // namespace inlay::exec
