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
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/exec/kv_swap.hpp>
#include <inlay/exec/packed_weights.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/plan/pieces.hpp>
#include <inlay/exec/plan/recorder.hpp>
#include <inlay/exec/row_sampler.hpp>
#include <inlay/exec/tensors.hpp>

namespace inlay::exec {

// A device that keeps launches in place of computing, and gives them to its queue later (Cl::record).
template <class B>
concept RecordsLaunches = OwnsMemory<B> && requires(B& device, const typename B::Recording& recording) {
  {
    device.record([] { return Status(); })
    } -> std::same_as<Expected<typename B::Recording>>;
  { device.replay(recording) } -> std::same_as<Status>;
};

template <class Chain> class EngineOn final : public Engine {
 public:
  using Space = typename Chain::Space;
  // An operator that goes to another backend's memory is copied there when it is due, which no recording does.
  static constexpr bool records = RecordsLaunches<typename Chain::First> && Chain::length == 1;
  static constexpr bool has_plans = records || std::is_same_v<Space, Host>;

  static Expected<std::unique_ptr<Engine>> make(ModelConfig config, Weights weights, Chain chain,
                                                const EngineOptions& options) {
    if (Status status = meet(config, weights, options, chain.words()); !status.ok()) return failure(std::move(status));
    auto engine = make_own(std::move(config), std::move(weights), std::move(chain), options);
    if (!engine) give_up(options.comm, engine.error());
    return engine ? lead(std::move(*engine), options.comm) : std::move(engine);
  }

 private:
  static Expected<std::unique_ptr<Engine>> make_own(ModelConfig config, Weights weights, Chain chain,
                                                    const EngineOptions& options) {
    if (!std::is_same_v<Space, Host> && !options.comm.alone())
      return failure(unsupported("the backend is " + std::string(Chain::First::name) +
                                 ", which has memory of its own; on several ranks it must compute in the host's"));
    if (Status status = check_kv_type(config, options.cache.dtype); !status.ok()) return failure(std::move(status));
    config.context = options.context;  // LongRoPE goes by what a text may have
    std::unique_ptr<EngineOn> engine(new EngineOn(std::move(chain), options));
    auto decoder = Decoder<Space>::make(std::move(config), std::move(weights), options.max_tokens, engine->tensors_,
                                        options.activations, options.attention,
                                        options.comm.alone() ? nullptr : &engine->gatherer_);
    if (!decoder) return failure(std::move(decoder.error()));
    engine->decoder_.emplace(std::move(*decoder));
    auto pool = KvPool<Space>::make(options.cache, engine->tensors_);
    if (!pool) return failure(std::move(pool.error()));
    engine->pool_.emplace(std::move(*pool));
    if (Status status = engine->take_swap_space(options.swap_tokens); !status.ok()) return failure(std::move(status));
    auto token = engine->tensors_.template make<1>(DType::i32, {1});
    if (!token) return failure(std::move(token.error()));
    engine->token_ = *token;
    if constexpr (has_plans) {
      auto params = Params::make(engine->config(), options.cache, options.max_tokens);
      if (!params) return failure(std::move(params.error()));
      engine->params_.emplace(std::move(*params));
    }
    if constexpr (PacksWeights<typename Chain::First>)
      if (Status status = engine->pack_weights(); !status.ok()) return failure(std::move(status));
    return engine;
  }

 public:
  const ModelConfig& config() const override { return decoder_->config(); }
  BlockPool& blocks() override { return *pool_; }
  std::size_t cache_bytes() const override { return pool_->bytes(); }
  SwapSpace* swap_space() override { return swap_space_.get(); }
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
    gatherer_.begin_pass();
    const View<2, Space> logits = logits_.slice(0, first, batch.logit_rows());
    const BatchViews<Host> views = batch.views();
    if constexpr (has_plans)
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
  void sample_all(std::span<Draw> draws) override {
    if constexpr (std::is_same_v<typename Chain::First, Cpu>)
      row_sampler_(run_.first(), logits_, draws);
    else
      Engine::sample_all(draws);
  }

 private:
  using Tensors = decltype(tensors_of(std::declval<typename Chain::First&>()));

  EngineOn(Chain chain, const EngineOptions& options)
      : run_(std::move(chain)),
        tensors_(tensors_of(run_.first())),
        logits_memory_(tensors_of(run_.first())),
        sampling_memory_(tensors_of(run_.first())),
        gatherer_(options.comm),
        brought_memory_(tensors_of(run_.first())),
        plans_(options.plans) {}

  Status take_swap_space(index tokens) {
    const auto wrong = [&](const char* must) {
      return invalid("swap_tokens is " + std::to_string(tokens) + "; it must be " + must);
    };
    if (tokens < 0) return wrong("at least 0");
    if (tokens == 0) return {};
    if constexpr (std::is_same_v<Space, Host>) {
      return wrong("0 where the cache lies in host memory: nothing is gained by a copy there");
    } else {
      auto made = KvSwap<Chain, Space>::make(run_, *pool_, tokens);
      if (!made) return std::move(made.error());
      swap_space_ = std::move(*made);
      return {};
    }
  }

  // The plan of passes like this one is captured where there is none.
  Status replay(const BatchViews<Host>& batch, const View<2, Space>& logits, index first) {
    if (Status status = params_->commit(batch); !status.ok()) return status;
    if (!batch.copies.empty()) {  // seldom, and then any number: they are in no plan
      auto copies = tensors_.upload_to_slot(0, batch.copies);
      if (!copies) return std::move(copies.error());
      decoder_->copy_blocks(run_, *pool_, *copies);
      if (Status status = run_.take_status(); !status.ok()) return status;
    }
    auto there = brought();
    if (!there) return std::move(there.error());
    const PlanKey whole = PlanKey::of(params_->views(), logits.extents[0], first);
    const PlanKey key = plans_.in_pieces() ? whole.without_attention() : whole;
    const Plan* plan = plans_.find(key, generation());
    if (plan == nullptr) {
      auto made = capture(*there, logits);
      if (!made) return std::move(made.error());
      plan = &plans_.keep(key, std::move(*made));
    }
    Status status = plans_.in_pieces() ? replay_pieces(*plan, *there, logits) : plan->replay(generation(), observer_);
    // As without a plan: what kernels met is told, and nothing runs when weights that the host has are gone.
    return status.ok() && records ? run_.take_status() : std::move(status);
  }

  // Of the addresses that plans hold.
  std::int64_t generation() const { return params_->generation() + (records ? run_.scratch_moves() : 0); }

  // What the pass brings, where operators look at it.
  Expected<BatchViews<Space>> brought() {
    if constexpr (!records) {
      return params_->views();
    } else {
      const std::span<const std::byte> all = params_->memory();
      if (brought_.extents[0] < std::ssize(all)) {
        brought_ = {};
        brought_memory_ = tensors_of(run_.first());  // gives back what there was
        auto made = brought_memory_.template make<1>(DType::i8, {std::ssize(all)});
        if (!made) return failure(std::move(made.error()));
        brought_ = *made;
      }
      if (Status status = run_.first().upload(brought_.data, all.first(params_->used())); !status.ok())
        return failure(std::move(status));
      return params_->views_in(brought_);
    }
  }

  Status replay_pieces(const Plan& plan, const BatchViews<Space>& batch, const View<2, Space>& logits) {
    ReplayRun replay(
        run_, plan, [this] { return generation(); }, records ? nullptr : observer_);
    decoder_->forward(replay, *pool_, batch, logits);
    return std::move(replay).finish();
  }

  Expected<Plan> capture(const BatchViews<Space>& batch, const View<2, Space>& logits) {
    // The line, of which that piece runs; how many there are.
    const auto emit = [&](auto& run, index piece) -> index {
      if (!plans_.in_pieces()) {
        decoder_->forward(run, *pool_, batch, logits);
        return 1;
      }
      PieceRun of(run, piece);
      decoder_->forward(of, *pool_, batch, logits);
      return of.pieces();
    };
    if constexpr (records) {
      using Recording = typename Chain::First::Recording;
      // Scratch grows within the first capture, and stays where it is in the second.
      for (;;) {
        const std::int64_t before = generation();
        std::vector<Recording> made;
        for (index piece = 0, pieces = 1; piece < pieces; ++piece) {
          auto recording = run_.first().record([&] {
            pieces = emit(run_, piece);
            return run_.take_status();
          });
          if (!recording) return failure(std::move(recording.error()));
          made.push_back(std::move(*recording));
        }
        if (generation() != before) continue;
        const index pieces = std::ssize(made);
        return Plan([&device = run_.first(), kept = std::make_shared<const std::vector<Recording>>(std::move(made))](
                        index piece, StepObserver*) { return device.replay((*kept)[static_cast<std::size_t>(piece)]); },
                    pieces, before);
      }
    } else {
      Recorder<Chain> record(run_, params_->memory());
      for (index piece = 0, pieces = 1; piece < pieces; ++piece) {
        pieces = emit(record, piece);
        record.end_piece();
      }
      auto tape = std::move(record).take();
      if (!tape) return failure(std::move(tape.error()));
      return Plan(std::move(*tape), generation());
    }
  }

  Status pack_weights() {
    if (Status status = reserve_logits(1); !status.ok()) return status;
    packed_.emplace(run_.first());
    return packed_->take_all(*decoder_, *pool_, logits_);
  }

  Chain run_;
  Tensors tensors_;  // of the weights, the activations, the cache and the batch
  Tensors logits_memory_, sampling_memory_;
  Gatherer gatherer_;
  std::optional<Decoder<Space>> decoder_;
  std::optional<KvPool<Space>> pool_;
  std::unique_ptr<SwapSpace> swap_space_;
  std::optional<PackedWeights<typename Chain::First>> packed_;
  View<2, Space> logits_;  // [rows, vocab]
  View<1, Space> token_;
  RowSampler row_sampler_;
  std::optional<Params> params_;
  Tensors brought_memory_;
  View<1, Space> brought_;  // a device's copy of params_
  PlanCache plans_;
  StepObserver* observer_ = nullptr;
};

template <class... Backends>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, Chain<Backends...> chain,
                                              const EngineOptions& options) {
  return EngineOn<Chain<Backends...>>::make(config, std::move(weights), std::move(chain), options);
}

}  // namespace inlay::exec
