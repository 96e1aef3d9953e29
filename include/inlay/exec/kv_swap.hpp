// The swap space of one cache: blocks of its shape in host memory, which costs nothing before it is written.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/serve/swap_space.hpp>
#include <inlay/ops/kv_cache.hpp>

namespace inlay::exec {

// `run` and the cache must outlive it. Nothing else is given to the device between two passes.
template <class Run, class Space> class KvSwap final : public SwapSpace {
 public:
  // For `tokens` in all, in whole blocks.
  static Expected<std::unique_ptr<KvSwap>> make(Run& run, const KvPool<Space>& cache, index tokens) {
    std::unique_ptr<KvSwap> made(new KvSwap(run, cache));
    BlockPool::Shape shape = cache.shape();
    shape.blocks = cache.blocks_of(tokens);
    auto pool = KvPool<>::make(shape, made->memory_);
    if (!pool) return failure(std::move(pool.error()));
    made->pool_.emplace(std::move(*pool));
    return made;
  }

  Status swap_out(const Sequence& sequence, Sequence& kept) override {
    if (Status status = pool_->reserve(kept, sequence.length); !status.ok()) return status;
    kept.length = sequence.length;
    Status status = swap(*cache_, *pool_, pairs(sequence, kept, 0));
    if (!status.ok()) forget(kept);
    return status;
  }
  Status swap_in(const Sequence& kept, index first, const Sequence& sequence) override {
    return swap(*pool_, *cache_, pairs(kept, sequence, first));
  }
  void forget(Sequence& kept) override { pool_->release(kept); }
  const BlockPool& blocks() const override { return *pool_; }

 private:
  KvSwap(Run& run, const KvPool<Space>& cache) : run_(&run), cache_(&cache) {}

  // The blocks of both from `first` on that hold tokens of `from`.
  ConstView<2> pairs(const Sequence& from, const Sequence& to, index first) {
    pairs_.clear();
    for (index i = first; i < pool_->blocks_of(from.length); ++i)
      pairs_.insert(pairs_.end(), {from.blocks[static_cast<std::size_t>(i)], to.blocks[static_cast<std::size_t>(i)]});
    return {pairs_.data(), {std::ssize(pairs_) / 2, 2}};
  }

  template <class From, class To>
  Status swap(const KvPool<From>& from, const KvPool<To>& to, const ConstView<2>& pairs) {
    const auto one = [&](const PagedView<From>& source, const PagedView<To>& target) {
      if (source.present()) (*run_)(SwapBlocks<From, To>{.source = source, .target = target, .pairs = pairs});
    };
    for (index layer = 0; layer < from.shape().layers; ++layer) {
      const KvLayer<From>& source = from.layer(layer);
      const KvLayer<To>& target = to.layer(layer);
      one(flat_cache(source.k), flat_cache(target.k));
      one(flat_cache(source.v), flat_cache(target.v));
      if (!source.k_scale.present()) continue;
      one(scales_cache(source.k_scale), scales_cache(target.k_scale));
      one(scales_cache(source.v_scale), scales_cache(target.v_scale));
    }
    return run_->take_status();
  }

  Run* run_;
  const KvPool<Space>* cache_;
  HostTensors memory_;
  std::optional<KvPool<>> pool_;
  std::vector<std::int64_t> pairs_;
};

}  // namespace inlay::exec
