// A model on a chain of backends: weights, cache and logits lie in the memory of the first one. This is the seam at
// which the kind of memory is forgotten.
//
// Who brings backends that Eager does not know includes this header. It is the executor whole, every operator on every
// backend of the chain: include it in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/exec/packed_weights.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/recorder.hpp>
#include <inlay/exec/tensors.hpp>

namespace inlay::exec {

template <class Chain> class EngineOn final : public Engine {
 public:
  using Space = typename Chain::Space;

  static Expected<std::unique_ptr<Engine>> make(ModelConfig config, Weights weights, Chain chain,
                                                const EngineOptions& options) {
    if (Status status = check_kv_type(config, options.cache.dtype); !status.ok()) return failure(std::move(status));
    config.context = options.context;  // LongRoPE goes by what a text may have
    std::unique_ptr<EngineOn> engine(new EngineOn(std::move(chain), options.plans));
    auto decoder = Decoder<Space>::make(std::move(config), std::move(weights), options.max_tokens, engine->tensors_,
                                        options.activations, options.attention);
    if (!decoder) return failure(std::move(decoder.error()));
    engine->decoder_.emplace(std::move(*decoder));
    auto pool = KvPool<Space>::make(options.cache, engine->tensors_);
    if (!pool) return failure(std::move(pool.error()));
    engine->pool_.emplace(std::move(*pool));
    auto token = engine->tensors_.template make<1>(DType::i32, {1});
    if (!token) return failure(std::move(token.error()));
    engine->token_ = *token;
    if constexpr (std::is_same_v<Space, Host>) {
      auto params = Params::make(engine->config(), options.cache, options.max_tokens);
      if (!params) return failure(std::move(params.error()));
      engine->params_.emplace(std::move(*params));
    }
    if constexpr (PacksWeights<typename Chain::First>)
      if (Status status = engine->pack_weights(); !status.ok()) return failure(std::move(status));
    return engine;
  }

  const ModelConfig& config() const override { return decoder_->config(); }
  BlockPool& blocks() override { return *pool_; }
  std::size_t cache_bytes() const override { return pool_->bytes(); }
  std::span<const Fallback> fallbacks() const override { return run_.fallbacks(); }
  void use_plans(Plans plans) override { plans_.use(plans); }
  const PlanCache::Counts& plan_counts() const override { return plans_.counts(); }
  void observe(StepObserver* observer) override { observer_ = observer; }

  Status reserve_logits(index rows) override {
    if (logits_.extents[0] >= rows) return {};
    logits_ = {};
    logits_memory_ = tensors_of(run_.first());  // gives back what there was
    auto made = logits_memory_.template make<2>(DType::f32, {rows, config().vocab});
    if (!made) return std::move(made.error());
    logits_ = *made;
    if (params_) params_->renew();
    return {};
  }

  Status forward(const Batch& batch, index first) override {
    const View<2, Space> logits = logits_.slice(0, first, batch.logit_rows());
    const BatchViews<Host> views = batch.views();
    if constexpr (std::is_same_v<Space, Host>)  // a device's operators are not captured yet
      if (plans_.takes(views)) return replay(views, logits, first);
    plans_.count_eager();
    auto there = upload(tensors_, views);
    if (!there) return std::move(there.error());
    decoder_->forward(run_, *pool_, *there, logits);
    return run_.take_status();
  }

  Expected<ConstView<2>> logits(index first, index rows) override {
    return logits_memory_.to_host(ConstView<2, Space>(logits_.slice(0, first, rows)));
  }

  Expected<std::int32_t> sample(const Sampling<Host>& settings, index row) override {
    Status status;
    std::size_t number = 0;
    auto there = rebind<Space>(settings, [&]<class V>(const auto&, const V& view) {
      if constexpr (std::is_same_v<V, View<V::rank>>) {
        return View<V::rank, Space>();  // what is written is not there
      } else {
        ConstView<V::rank, Space> result;
        auto uploaded = sampling_memory_.upload_to_slot(number++, view);
        if (uploaded)
          result = *uploaded;
        else
          status = std::move(uploaded.error());
        return result;
      }
    });
    if (!status.ok()) return failure(std::move(status));
    there.op.logits = logits_.slice(0, row, 1);
    there.op.tokens = token_;
    run_(there.op);
    if (Status drawn = run_.take_status(); !drawn.ok()) return failure(std::move(drawn));
    auto token = sampling_memory_.to_host(ConstView<1, Space>(token_));
    if (!token) return failure(std::move(token.error()));
    return *token->template as<std::int32_t>();
  }

 private:
  using Tensors = decltype(tensors_of(std::declval<typename Chain::First&>()));

  EngineOn(Chain chain, Plans plans)
      : run_(std::move(chain)),
        tensors_(tensors_of(run_.first())),
        logits_memory_(tensors_of(run_.first())),
        sampling_memory_(tensors_of(run_.first())),
        plans_(plans) {}

  // The plan of passes like this one is captured where there is none.
  Status replay(const BatchViews<Host>& batch, const View<2>& logits, index first) {
    if (Status status = params_->commit(batch); !status.ok()) return status;
    if (!batch.copies.empty()) {  // seldom, and then any number: they are in no plan
      decoder_->copy_blocks(run_, *pool_, batch.copies);
      if (Status status = run_.take_status(); !status.ok()) return status;
    }
    const PlanKey key = PlanKey::of(params_->views(), logits.extents[0], first);
    const std::int64_t generation = params_->generation();
    const Plan* plan = plans_.find(key, generation);
    if (plan == nullptr) {
      Recorder<Chain> record(run_, params_->memory());
      decoder_->forward(record, *pool_, params_->views(), logits);
      auto tape = std::move(record).take();
      if (!tape) return std::move(tape.error());
      plan = &plans_.keep(key, Plan(std::move(*tape), generation));
    }
    return plan->replay(generation, observer_);
  }

  // By a pass over one token, which is not there: only shapes and weights are looked at.
  Status pack_weights() {
    if (Status status = reserve_logits(1); !status.ok()) return status;
    BatchViews<Space> token;
    token.tokens = {nullptr, DType::i32, {1}};
    token.generated.kv_lens = token.tokens;
    packed_.emplace(run_.first());
    decoder_->forward(*packed_, *pool_, token, logits_);
    return packed_->take_status();
  }

  Chain run_;
  Tensors tensors_;  // of the weights, the activations, the cache and the batch
  Tensors logits_memory_, sampling_memory_;
  std::optional<Decoder<Space>> decoder_;
  std::optional<KvPool<Space>> pool_;
  std::optional<PackedWeights<typename Chain::First>> packed_;
  View<2, Space> logits_;  // [rows, vocab]
  View<1, Space> token_;
  std::optional<Params> params_;  // on host memory
  PlanCache plans_;
  StepObserver* observer_ = nullptr;
};

template <class... Backends>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, Chain<Backends...> chain,
                                              const EngineOptions& options) {
  return EngineOn<Chain<Backends...>>::make(config, std::move(weights), std::move(chain), options);
}

}  // namespace inlay::exec
