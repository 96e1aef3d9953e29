// A model on its backends, whatever they are: one call a pass. It is all that a Session knows of them; which backends
// there are, and in whose memory weights, cache and logits lie, is engine_on.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <inlay/core/attention.hpp>
#include <inlay/exec/batch.hpp>
#include <inlay/exec/comm/comm.hpp>
#include <inlay/exec/fallback.hpp>
#include <inlay/exec/plan/plan_cache.hpp>
#include <inlay/exec/serve/swap_space.hpp>
#include <inlay/model/activations.hpp>
#include <inlay/model/model_config.hpp>
#include <inlay/model/weights.hpp>
#include <inlay/ops/sampling.hpp>

namespace inlay::exec {

class Eager;  // eager.hpp
template <class... Backends> class Chain;

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const ModelConfig& config() const = 0;
  virtual BlockPool& blocks() = 0;
  virtual std::size_t cache_bytes() const = 0;
  // For texts that are preempted, or nothing: they are computed a second time.
  virtual SwapSpace* swap_space() = 0;
  virtual std::span<const Fallback> fallbacks() const = 0;
  // Which passes are captured and replayed from now on.
  virtual void use_plans(Plans plans) = 0;
  virtual const PlanCache::Counts& plan_counts() const = 0;
  // Who looks on while plans are replayed from now on, or nobody; it outlives the last pass that it sees.
  virtual void observe(StepObserver* observer) = 0;

  // Memory for the logits of so many tokens. What was there is lost if it is more than before.
  virtual Status reserve_logits(index rows) = 0;
  // The logits that the batch wants become rows `first`... of those reserved.
  virtual Status forward(const Batch& batch, index first) = 0;
  // Several passes, each behind those before it; whoever computes them at once says how many.
  struct Pass {
    const Batch* batch;
    index first;
  };
  virtual index passes_at_once() const { return 1; }
  virtual Status forward_all(std::span<const Pass> passes) {
    Status status;
    for (const Pass& pass : passes)
      if (status.ok()) status = forward(*pass.batch, pass.first);
    return status;
  }
  // Those of them on the host: [rows, vocab] f32, valid until the next call.
  virtual Expected<ConstView<2>> logits(index first, index rows) = 0;
  // Draws a token from one row, where the logits lie. `settings` is of host memory and lacks logits, tokens and probs.
  virtual Expected<std::int32_t> sample(const Sampling<Host>& settings, index row) = 0;
  // Several draws, each with the token of sample alone; the processor computes them side by side.
  struct Draw {
    Sampling<Host> settings;
    index row = 0;
    Expected<std::int32_t> token = -1;  // what is drawn, or why none is
  };
  virtual void sample_all(std::span<Draw> draws) {
    for (Draw& each : draws) each.token = sample(each.settings, each.row);
  }
};

struct EngineOptions {
  index max_tokens = 0;  // of one pass
  index context = 0;     // of one text
  Activations activations = Activations::exact;
  AttentionCompute attention =
      AttentionCompute::exact_float;  // that of prompts; of generated tokens it is always exact
  BlockPool::Shape cache = {};
  Plans plans = Plans::decode;  // which passes are captured and replayed
  index swap_tokens = 0;        // of the swap space; none where the cache lies in host memory
  Comm comm = {};               // one rank of several: config, weights and cache are its own (RankCut, comm/lead.hpp)
};

// On backends that Eager knows.
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, Eager run,
                                              const EngineOptions& options);
// On others, but for Chain<Cl&>: inlay/exec/engine_on.hpp has the definition.
template <class... Backends>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, Chain<Backends...> chain,
                                              const EngineOptions& options);

}  // namespace inlay::exec
