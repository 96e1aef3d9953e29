// A prompt of a model in chunks, recorded as one line of steps: what `inlay plan` places and `inlay profile` measures.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/split/solver.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::tools {

// What a step does: operations, and bytes that it reads and writes. A prompt's attention sees its chunk and those
// before it, and only those are read of a cache.
struct StepWork {
  double flops = 0, bytes = 0;
};

// The weights of a model: of a file, or of a shape that `inlay bench model --shape` knows, then random w4a16.
struct PlannedModel {
  exec::ModelConfig config;
  exec::Weights weights;
};
// `model`: a file or a shape; empty: the model that ships with Inlay.
Expected<exec::ModelConfig> planned_config(const std::string& model);
Expected<PlannedModel> planned_model(const std::string& model, const Parallel& parallel);

class RecordedPrompt {
 public:
  // `tokens` in chunks of `chunk`, the last one shorter. Steps may be run by Cpu.
  static Expected<std::unique_ptr<RecordedPrompt>> record(PlannedModel model, index tokens, index chunk);

  const exec::StepGraph& graph() const { return graph_; }
  exec::StepGraph& graph() { return graph_; }
  // Of the values, not of the buffers that they lie in.
  const exec::Edges& edges() const { return *edges_; }
  StepWork work(const exec::GraphStep& step) const;
  // Of a linear's step; nothing for others.
  std::optional<exec::LinearShape> linear(const exec::GraphStep& step) const;
  // What the step writes, in bytes.
  static double written_bytes(const exec::GraphStep& step);

 private:
  RecordedPrompt() = default;

  void count_tokens(exec::GraphStep& step, index tokens) const;

  exec::ModelConfig config_;
  exec::StepGraph graph_;
  std::optional<exec::Edges> edges_;
  exec::HostTensors tensors_;
  std::optional<exec::Decoder<>> decoder_;
  std::optional<exec::KvPool<>> pool_;
  exec::Sequence text_;
  std::list<exec::Params> params_;
  std::vector<float> logits_;
  std::vector<index> seen_;  // tokens until the end of each chunk
};

}  // namespace inlay::tools
