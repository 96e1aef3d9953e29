// An engine brings its own threads: Parallel is a context, a width and one function that runs n
// tasks and returns when all are done. Kernels below it know no threads.
#pragma once

#include <cstdint>
#include <type_traits>

#include <inlay/core/dtype.hpp>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace inlay {

struct Parallel {
  // Runs task(data, i) for each i in 0..tasks-1, in any order, on any thread, and waits for all.
  using Run = void (*)(void* context, index tasks, void (*task)(void* data, index i), void* data);

  void* context = nullptr;
  int width = 1;  // how many tasks run at once: kernels cut their work by it
  Run run = nullptr;

  template <class Task> void operator()(index tasks, Task&& task) const {
    if (tasks <= 0) return;
    if (tasks == 1 || width <= 1 || run == nullptr) {
      for (index i = 0; i < tasks; ++i) task(i);
      return;
    }
    using T = std::remove_reference_t<Task>;
    run(
        context, tasks, [](void* data, index i) { (*static_cast<T*>(data))(i); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }

  // 0..count-1 in at most `width` contiguous pieces whose bounds are multiples of `grain`:
  // body(begin, end).
  template <class Body> void ranges(index count, index grain, Body&& body) const {
    const index grains = (count + grain - 1) / grain;
    const index pieces = grains < width ? grains : width;
    (*this)(pieces, [&](index i) {
      const index begin = grains * i / pieces * grain;
      const index end = grains * (i + 1) / pieces * grain;
      body(begin, end < count ? end : count);
    });
  }
};

// One thread: the caller's.
inline Parallel serial() { return {}; }

#if defined(_OPENMP)
// OpenMP's threads; 0 takes as many as OpenMP would. Tasks are dealt out one by one, since a shared
// machine slows single threads down.
inline Parallel openmp(int threads = 0) {
  const int width = threads > 0 ? threads : omp_get_max_threads();
  return {.context = reinterpret_cast<void*>(static_cast<std::intptr_t>(width)),
          .width = width,
          .run = [](void* context, index tasks, void (*task)(void*, index), void* data) {
            const int team = static_cast<int>(reinterpret_cast<std::intptr_t>(context));
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
            for (index i = 0; i < tasks; ++i) task(data, i);
          }};
}
#endif

// Any pool whose run(n, f) calls f(i) for each i < n and waits. The pool must outlive the result.
template <class Pool> Parallel from_pool(Pool& pool, int width) {
  return {
      .context = &pool, .width = width, .run = [](void* context, index tasks, void (*task)(void*, index), void* data) {
        static_cast<Pool*>(context)->run(tasks, [=](index i) { task(data, i); });
      }};
}

}  // namespace inlay
