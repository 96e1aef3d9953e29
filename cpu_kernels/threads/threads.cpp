#include <inlay/core/threads.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "cpu_kernels/threads/workers.hpp"

namespace inlay {

namespace {

// All pools, for fork(): the child has the one thread that called it, so it leaves the crews behind with whatever they
// were at, and the memory they have. Those of the process itself are never deleted, or a thread that still runs while
// the process ends would have none to ask.
struct Pools {
  std::mutex mutex;
  std::set<Threads*> all;
  std::map<int, std::unique_ptr<Threads>> by_width;
};
std::atomic<Pools*> made_pools{nullptr};
Pools& pools() {
  static Pools& kept = *new Pools;
  made_pools.store(&kept);
  return kept;
}

int clamped(int width) { return width < 1 ? default_width() : width < Threads::most ? width : Threads::most; }

}  // namespace

// When the process ends, or dlclose() unloads the library that holds this: the workers of the process's own pools are
// joined, or they would go on in code that is gone. By its priority it comes behind every destructor of a static
// object, which may still compute, and behind it callers do their work themselves. A pool with a job under way keeps
// its workers: exit() may be called from within a task.
[[gnu::destructor(101)]] static void close_pools() {
  Pools* const made = made_pools.load();
  if (made == nullptr) return;
  const std::lock_guard lock(made->mutex);
  for (auto& [width, pool] : made->by_width) pool->close();
}

Threads::Threads(const Options& options)
    : options_{.width = clamped(options.width), .pin = options.pin},
      processors_(allowed_processors()),
      next_reads_(std::make_unique<Announced>()) {
  static const int registered = ::pthread_atfork([] { pools().mutex.lock(); }, [] { pools().mutex.unlock(); },
                                                 [] {
                                                   for (Threads* pool : pools().all) pool->forget();
                                                   pools().mutex.unlock();
                                                 });
  (void)registered;
  const std::lock_guard lock(pools().mutex);
  pools().all.insert(this);
}

Threads::~Threads() {
  const std::lock_guard lock(pools().mutex);
  pools().all.erase(this);
}

void Threads::close() {
  if (taken_.exchange(true)) return;
  workers_.reset();
  processors_ = {};
}

void Threads::forget() {
  (void)workers_.release();
  taken_.store(false);
  processors_.clear();
}

void Threads::run(index tasks, void (*task)(void*, index), void* data) {
  if (tasks < 2 || width() < 2 || taken_.exchange(true, std::memory_order_acquire)) {
    for (index i = 0; i < tasks; ++i) task(data, i);
    return;
  }
  struct Release {
    std::atomic<bool>& taken;
    ~Release() { taken.store(false, std::memory_order_release); }
  } const release{taken_};
  if (!workers_) {
    if (processors_.empty()) processors_ = allowed_processors();
    workers_ = std::make_unique<Workers>(options_, processors_, *next_reads_);
  }
  constexpr index at_once = index{1} << 31;  // tasks that a range can count
  for (index first = 0; first < tasks; first += at_once)
    workers_->run(first, tasks - first < at_once ? tasks - first : at_once, task, data);
}

void Threads::expect(const void* begin, std::size_t bytes) { next_reads_->announce(begin, bytes); }

// Less than of other pools (Parallel::least): within a token these workers are awake. Two cores, AVX2, medians of nine
// turns of decode, 20, 6 and 3 us: SmolLM2-135M 188, 224 and 221 tok/s, our own model 4035, 4112 and 4818.
Parallel Threads::parallel() {
  constexpr double least = 3e-6;
  const Parallel::Run handed_out = [](void* context, index tasks, void (*task)(void*, index), void* data) {
    static_cast<Threads*>(context)->run(tasks, task, data);
  };
  const auto expected = [](void* context, const void* begin, std::size_t bytes) {
    static_cast<Threads*>(context)->expect(begin, bytes);
  };
  return {.context = this, .width = width(), .run = handed_out, .least = least, .ahead = {this, expected}};
}

Parallel threads(int width) {
  const int wanted = clamped(width);
  for (std::unique_ptr<Threads> made;; made = std::make_unique<Threads>(Threads::Options{.width = wanted})) {
    const std::lock_guard lock(pools().mutex);  // which the constructor takes too
    std::unique_ptr<Threads>& pool = pools().by_width[wanted];
    if (!pool) pool = std::move(made);
    if (pool) return pool->parallel();
  }
}

}  // namespace inlay
