// A model whose passes are steps of two devices (inlay/exec/device/side_by_side.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/packed_weights.hpp>
#include <inlay/exec/plan/arena.hpp>
#include <inlay/exec/plan/params.hpp>
#include <inlay/exec/schedule/run.hpp>

#include "executor/exec/engines/shared_memory.hpp"
#include "executor/exec/engines/step_placer.hpp"

namespace inlay::exec {

template <class Second> class SideBySideEngine final : public Engine {
 public:
  static Expected<std::unique_ptr<Engine>> make(ModelConfig config, Weights weights, SideBySide<Second> run,
                                                const EngineOptions& options) {
    if (Status status = check_kv_type(config, options.cache.dtype); !status.ok()) return failure(std::move(status));
    if (options.swap_tokens != 0)
      return failure(invalid("swap_tokens is " + std::to_string(options.swap_tokens) +
                             "; it must be 0 where the cache lies in host memory: nothing is gained by a copy there"));
    if (!options.comm.alone())
      return failure(unsupported("there are " + std::to_string(options.comm.size) +
                                 " ranks; a rank must have one device, not two at once"));
    if (run.chunks < 1 || run.chunks > most_chunks)
      return failure(
          invalid("chunks is " + std::to_string(run.chunks) + "; it must be in 1.." + std::to_string(most_chunks)));
    config.context = options.context;  // LongRoPE goes by what a text may have
    std::unique_ptr<SideBySideEngine> engine(new SideBySideEngine(run));
    auto placer = StepPlacer<Second>::make(run, config.layers, engine->second_runner_);
    if (!placer) return failure(std::move(placer.error()));
    engine->placer_.emplace(std::move(*placer));
    auto decoder = Decoder<>::make(config, std::move(weights), options.max_tokens, engine->tensors_,
                                   options.activations, options.attention);
    if (!decoder) return failure(std::move(decoder.error()));
    engine->decoder_.emplace(std::move(*decoder));
    auto pool = KvPool<>::make(options.cache, engine->tensors_);
    if (!pool) return failure(std::move(pool.error()));
    engine->pool_.emplace(std::move(*pool));
    engine->params_of_ = {options.cache, options.max_tokens};
    if (Status status = engine->make_params(); !status.ok()) return failure(std::move(status));
    if constexpr (PacksWeights<Second>)
      if (Status status = engine->pack_weights(); !status.ok()) return failure(std::move(status));
    return engine;
  }

  const ModelConfig& config() const override { return decoder_->config(); }
  BlockPool& blocks() override { return *pool_; }
  std::size_t cache_bytes() const override { return pool_->bytes(); }
  SwapSpace* swap_space() override { return nullptr; }
  std::span<const Fallback> fallbacks() const override { return placer_->fallbacks(); }
  void use_plans(Plans) override {}  // a pass that is not recorded has no steps
  const PlanCache::Counts& plan_counts() const override { return counts_; }
  void observe(StepObserver*) override {}  // whose steps follow one another
  index passes_at_once() const override { return chunks_; }

  Status reserve_logits(index rows) override {
    if (logits_.extents[0] >= rows) return {};
    forget_recorded();
    memory_.forget_view(logits_);
    logits_memory_ = HostTensors();
    return take(logits_memory_, DType::f32, {rows, config().vocab}, logits_);
  }

  Status forward(const Batch& batch, index first) override {
    const Pass pass{&batch, first};
    return forward_all({&pass, 1});
  }

  Status forward_all(std::span<const Pass> passes) override {
    if (waits_for_second_) {
      if (Status status = threads_.check(second_device); !status.ok()) return status;
      waits_for_second_ = false;
    }
    std::vector<PlanKey> keys;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const BatchViews<Host> views = passes[i].batch->views();
      if (Status status = params_[i].commit(views); !status.ok()) return status;
      decoder_->copy_blocks(eager_, *pool_, views.copies);
      if (Status status = eager_.take_status(); !status.ok()) return status;
      keys.push_back(PlanKey::of(params_[i].views(), passes[i].batch->logit_rows(), passes[i].first));
    }
    renew();
    auto recorded =
        std::find_if(recorded_.begin(), recorded_.end(), [&](const Recorded& each) { return each.keys == keys; });
    if (recorded == recorded_.end()) {
      if (recorded_.size() == most_recorded) memory_.forget_view(recorded_.back().arena), recorded_.pop_back();
      recorded_.emplace_front();
      recorded = recorded_.begin();
      recorded->keys = keys;
      Status status = record(*recorded, passes);
      if (!status.ok()) {
        memory_.forget_view(recorded->arena), recorded_.pop_front();
        return status;
      }
      ++counts_.captured;
    } else {
      recorded_.splice(recorded_.begin(), recorded_, recorded);
      ++counts_.replayed;
    }
    Status status = run_steps({.graph = recorded->graph,
                               .edges = *recorded->edges,
                               .devices = devices_,
                               .placement = recorded->placement,
                               .policy = policy_,
                               .waiting = waiting_},
                              threads_, timeline_);
    if (!status.ok() && placer_->second_is_left())
      if (Status made = give_up_second(*recorded, status); !made.ok()) return made;
    return status;
  }

  Expected<ConstView<2>> logits(index first, index rows) override {
    return ConstView<2>(logits_.slice(0, first, rows));
  }

  Expected<std::int32_t> sample(const Sampling<Host>& settings, index row) override {
    std::int32_t token = 0;
    Sampling<Host> op = settings;
    op.logits = logits_.slice(0, row, 1);
    op.tokens = View<1>(&token, DType::i32, {1});
    eager_(op);
    if (Status drawn = eager_.take_status(); !drawn.ok()) return failure(std::move(drawn));
    return token;
  }

 private:
  static constexpr index most_chunks = 64;
  static constexpr std::size_t most_recorded = 64;
  static constexpr std::size_t second_device = StepPlacer<Second>::second_device;

  struct Recorded {
    std::vector<PlanKey> keys;
    StepGraph graph;
    std::optional<Edges> edges;
    std::vector<std::size_t> placement;
    HostTensors arena_memory;
    View<1> arena;
  };

  // Whose backend it takes.
  explicit SideBySideEngine(SideBySide<Second>& run)
      : chunks_(run.chunks),
        policy_(run.policy),
        waiting_(run.waiting),
        eager_(run.cpu),
        second_(std::move(run.second)),
        memory_(second_),
        second_runner_(second_),
        first_({.name = "cpu"}, computed_by(run.cpu)),
        second_device_(
            {.name = std::string(Second::name), .kind = kind, .limits = {.watchdog_us = 1e6 * run.watchdog_seconds}},
            [this](const GraphStep& step) {
              Status status = second_runner_.run(step);
              if (!status.ok()) second_failed_ = true;
              return status;
            }) {}

  static constexpr DeviceKind kind = SharedMemory<Second>::is_told ? DeviceKind::gpu : DeviceKind::npu;

  // Chunks of one text: each reads keys of those before it, and nothing else of them. (Recordings of four times as
  // many, in which a chunk waits for the one `chunks_` before it: 0 to 4% faster, longest unlock 0.3%, in
  // bench_exec_devices.)
  Status record(Recorded& to, std::span<const Pass> passes) {
    std::vector<ByteRange> kept = pool_->ranges();
    kept.push_back(byte_range(logits_));
    for (std::size_t i = 0; i < passes.size(); ++i) {
      GraphRecorder<Cpu, Second> record(to.graph, static_cast<index>(i));
      decoder_->forward(record, *pool_, params_[i].views(),
                        logits_.slice(0, passes[i].first, passes[i].batch->logit_rows()));
      if (Status status = record.take_status(); !status.ok()) return status;
    }
    HostTensors between;  // until the arena has them
    if (Status status = placer_->place(to.graph, to.placement, between, kept); !status.ok()) return status;
    Arena arena(to.graph.accesses(), kept);
    to.edges = Edges::of(arena.apart());
    arena.place(*to.edges);
    if (Status status =
            take(to.arena_memory, DType::i8, {static_cast<index>(arena.bytes() + workspace_alignment)}, to.arena);
        !status.ok())
      return status;
    arena.move(to.graph, static_cast<std::byte*>(to.arena.data));  // pages are aligned
    return share(to, kept);
  }

  // The memory of its steps.
  Status share(const Recorded& recorded, const std::vector<ByteRange>& kept) {
    Status status = memory_.share(byte_range(recorded.arena));
    for (const std::vector<ByteRange>* ranges : {&kept, &std::as_const(params_memory_)})
      for (const ByteRange& each : *ranges)
        if (status.ok()) status = memory_.share(each);
    if (status.ok())
      status =
          memory_.share(recorded.graph, [&](std::size_t step) { return recorded.placement[step] == second_device; });
    return status;
  }
  // Params that have moved are where no step looks.
  void renew() {
    std::int64_t generation = 0;
    for (const Params& params : params_) generation += params.generation();
    if (generation == generation_) return;
    forget_recorded();
    for (const ByteRange& each : params_memory_) memory_.forget(each);
    params_memory_.clear();
    for (const Params& params : params_) params_memory_.push_back(range_of(params));
    generation_ = generation;
  }
  static ByteRange range_of(const Params& params) {
    const std::span<const std::byte> memory = params.memory();
    return byte_range(ConstView<1>(memory.data(), DType::i8, {std::ssize(memory)}));
  }
  void forget_recorded() {
    for (Recorded& each : recorded_) memory_.forget_view(each.arena);
    recorded_.clear();
  }

  Status make_params() {
    for (index i = 0; i < chunks_; ++i) {
      auto params = Params::make(config(), params_of_.first, params_of_.second);
      if (!params) return std::move(params.error());
      params_.push_back(std::move(*params));
    }
    return {};
  }

  // A device that has failed computes nothing any more: what it was to compute the CPU has from now on.
  Status give_up_second(const Recorded& recorded, const Status& why) {
    const bool lost = !threads_.check(second_device).ok();
    if (!lost && !second_failed_) return {};
    placer_->give_up_second(why);
    if (!lost) {
      forget_recorded();
      return {};
    }
    // A step is still under way: what it looks at stays, and if it may write into the cache, no text can go on before
    // it has ended.
    waits_for_second_ = writes_cache(recorded);
    memory_.abandon();
    abandoned_.splice(abandoned_.end(), recorded_);
    abandoned_logits_.push_back(std::exchange(logits_memory_, HostTensors()));
    logits_ = {};
    abandoned_params_ = std::exchange(params_, {});
    return make_params();
  }
  bool writes_cache(const Recorded& recorded) const {
    const std::vector<ByteRange> cache = pool_->ranges();
    const auto is_in_cache = [&](const Access& access) {
      return access.writes && std::ranges::any_of(cache, [&](const ByteRange& range) {
               return access.begin < range.end && range.begin < access.end();
             });
    };
    for (std::size_t i = 0; i < recorded.placement.size(); ++i)
      if (recorded.placement[i] == second_device &&
          std::ranges::any_of(recorded.graph.steps()[i].accesses, is_in_cache))
        return true;
    return false;
  }

  Status pack_weights() {
    if (Status status = reserve_logits(1); !status.ok()) return status;
    packed_.emplace(second_);
    return packed_->take_all(*decoder_, *pool_, logits_);
  }

  HostTensors tensors_, logits_memory_;
  std::optional<Decoder<>> decoder_;
  std::optional<KvPool<>> pool_;
  View<2> logits_;                                     // [rows, vocab]
  std::vector<Params> params_;                         // one for each chunk under way
  std::vector<ByteRange> params_memory_;               // where they lie
  std::int64_t generation_ = -1;                       // of those places
  std::pair<BlockPool::Shape, index> params_of_ = {};  // the cache, and tokens of a pass
  index chunks_;
  Policy policy_;
  Waiting waiting_;
  Chain<Cpu> eager_;
  Second second_;
  SharedMemory<Second> memory_;
  std::optional<PackedWeights<Second>> packed_;
  std::list<Recorded> recorded_;  // the one used last first
  // What a device that was given up may still look at.
  std::list<Recorded> abandoned_;
  std::list<HostTensors> abandoned_logits_;
  std::vector<Params> abandoned_params_;
  std::atomic<bool> second_failed_ = false;  // it has said so
  bool waits_for_second_ = false;            // which may write into the cache
  PlanCache::Counts counts_;
  DeviceTimeline timeline_;
  StepRunner<Second&> second_runner_;
  std::optional<StepPlacer<Second>> placer_;
  CpuDevice first_, second_device_;
  Device* const devices_[2] = {&first_, &second_device_};
  DeviceThreads threads_{devices_};  // the last: they end before what they look at
};

template <class Second>
Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, SideBySide<Second> run,
                                              const EngineOptions& options) {
  return SideBySideEngine<Second>::make(config, std::move(weights), std::move(run), options);
}

}  // namespace inlay::exec
