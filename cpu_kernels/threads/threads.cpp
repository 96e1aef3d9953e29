#include <inlay/core/threads.hpp>

#include <map>
#include <mutex>
#include <set>

#include "cpu_kernels/threads/crew.hpp"

namespace inlay {

namespace {

// All pools, for fork(): the child has the one thread that called it, so it leaves the crews behind with whatever they
// were at, and the memory they have. Those of the process itself live as long as it.
struct Pools {
  std::mutex mutex;
  std::set<Threads*> all;
  std::map<int, std::unique_ptr<Threads>> by_width;
};
Pools& pools() {
  static Pools& kept = *new Pools;
  return kept;
}

int clamped(int width) { return width < 1 ? default_width() : width < Threads::most ? width : Threads::most; }

}  // namespace

Threads::Threads(const Options& options)
    : options_{.width = clamped(options.width), .pin = options.pin}, processors_(allowed_processors()) {
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

void Threads::forget() {
  (void)crew_.release();
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
  if (!crew_) {
    if (processors_.empty()) processors_ = allowed_processors();
    crew_ = std::make_unique<Crew>(options_, processors_);
  }
  constexpr index at_once = index{1} << 31;  // tasks that a range can count
  for (index first = 0; first < tasks; first += at_once)
    crew_->run(first, tasks - first < at_once ? tasks - first : at_once, task, data);
}

Parallel Threads::parallel() {
  return {
      .context = this, .width = width(), .run = [](void* context, index tasks, void (*task)(void*, index), void* data) {
        static_cast<Threads*>(context)->run(tasks, task, data);
      }};
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
