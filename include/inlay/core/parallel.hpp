// An engine brings its own threads: Parallel is a context, a width and one function that runs n
// tasks and returns when all are done. Kernels below it know no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace inlay {

// What a call is about to do, in all its tasks together: bytes that it moves and operations that it does, an estimate.
// (Inlined always: kernels of several instruction sets include this, and may not leave a body of theirs to others.)
// Other threads come within some microseconds if they are awake and some tens if not: below that the caller does
// the work itself.
struct Work {
  double bytes = 0, operations = 0;

  // Of one thread on a processor of today, whose vectors do the operations while the bytes come.
  [[gnu::always_inline]] double seconds() const {
    const double moved = bytes / 20e9, computed = operations / 100e9;
    return moved > computed ? moved : computed;
  }
  [[gnu::always_inline]] friend Work operator*(double n, Work one) { return {n * one.bytes, n * one.operations}; }
};

struct Parallel {
  // Runs task(data, i) for each i in 0..tasks-1, in any order, on any thread, and waits for all.
  using Run = void (*)(void* context, index tasks, void (*task)(void* data, index i), void* data);

  void* context = nullptr;
  int width = 1;  // how many tasks run at once: kernels cut their work by it
  Run run = nullptr;
  double least = 20e-6;  // seconds of work that is worth handing out; 0 hands out everything

  // Optional. Called with the memory that the job behind the next one will read from its beginning to its end, by its
  // tasks in their order: threads that wait may ask for it. No result depends on it, nor need the memory be there.
  struct Ahead {
    void* context = nullptr;
    void (*expect)(void* context, const void* begin, std::size_t bytes) = nullptr;
  };
  Ahead ahead = {};

  // Work is cut for more threads than there are, so that one which is kept off its core holds a small part of it; long
  // work finer still.
  static constexpr index pieces_a_thread = 8;
  static constexpr double longest_piece = 20e-6;

  // Nobody else has a part in it.
  [[gnu::always_inline]] bool alone(const Work& work) const {
    return width <= 1 || run == nullptr || work.seconds() < least;
  }

  template <class Task> INLAY_INLINE void operator()(index tasks, const Work& work, Task&& task) const {
    if (tasks <= 0) return;
    if (tasks == 1 || alone(work)) {
      for (index i = 0; i < tasks; ++i) task(i);
      return;
    }
    using T = std::remove_reference_t<Task>;
    run(
        context, tasks, [](void* data, index i) { (*static_cast<T*>(data))(i); },
        const_cast<void*>(static_cast<const void*>(&task)));
  }
  template <class Task> INLAY_INLINE void operator()(index tasks, Task&& task) const {
    (*this)(tasks, unestimated, task);
  }

  // How many tasks `work` becomes that can be cut into `most`.
  [[gnu::always_inline]] index pieces(index most, const Work& work) const {
    if (most <= 1 || alone(work)) return most < 1 ? most : 1;
    const index few = pieces_a_thread * width;
    const double many = work.seconds() / longest_piece;
    if (most <= few || static_cast<double>(most) <= many) return most;
    return many > static_cast<double>(few) ? static_cast<index>(many) : few;
  }

  // 0..count-1 in contiguous pieces whose bounds are multiples of `grain`: body(begin, end).
  template <class Body> INLAY_INLINE void ranges(index count, index grain, const Work& work, Body&& body) const {
    const index grains = (count + grain - 1) / grain, tasks = pieces(grains, work);
    (*this)(tasks, work, [&](index i) {
      const index begin = grains * i / tasks * grain;
      const index end = grains * (i + 1) / tasks * grain;
      body(begin, end < count ? end : count);
    });
  }
  template <class Body> INLAY_INLINE void ranges(index count, index grain, Body&& body) const {
    ranges(count, grain, unestimated, body);
  }

  static constexpr Work unestimated{.bytes = 1e6};  // is handed out
};

inline namespace INLAY_UNIT_ISA {

// One thread: the caller's.
inline Parallel serial() { return {}; }

}  // namespace INLAY_UNIT_ISA

#if defined(_OPENMP)
inline namespace INLAY_UNIT_ISA {

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

}  // namespace INLAY_UNIT_ISA

#endif

inline namespace INLAY_UNIT_ISA {

// Any pool whose run(n, f) calls f(i) for each i < n and waits. The pool must outlive the result.
template <class Pool> Parallel from_pool(Pool& pool, int width) {
  return {
      .context = &pool, .width = width, .run = [](void* context, index tasks, void (*task)(void*, index), void* data) {
        static_cast<Pool*>(context)->run(tasks, [=](index i) { task(data, i); });
      }};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
