// The workers of a pool, and what they share with the thread that calls it. One job at a time.
//
// A job's tasks lie in ranges, one for each thread:
//
//   caller    [ b ........ e )      the whole job at first; its owner takes tasks from the front
//   worker 1  [ )                   who has none takes the rear half of another's
//   worker 2  [ )
//
// so that a thread's tasks are neighbours: what the end of one prefetches is the beginning of the next, and memory sees
// one stream a thread (decode of qwen2.5-0.5b in w4a16: 135 to 145 tok/s; taken one by one from one counter 94 to 115).
//
// A range is one word, so whoever changes it holds what it took. Ranges hold tasks only while a job is under way: a
// claim that succeeds is one of that job, however long its thread has been away since it read the word. The job's plain
// fields change only while no task is unfinished, and are read only by who has claimed one.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/core/threads.hpp>

#include <inlay/core/float_modes.hpp>
#include "cpu_kernels/threads/ahead.hpp"
#include "cpu_kernels/threads/allowed.hpp"
#include "cpu_kernels/threads/waiting.hpp"

namespace inlay {

// How long a thread spins before it sleeps. A worker between two jobs: the stretches of a token that nobody hands out
// are shorter, so that one wake-up serves a chain of operators. The caller at the end of a job: a task is shorter.
//
// Two cores, decode of qwen2.5-0.5b in w4a16: workers that do not spin lose a fifth of the quiet speed, 200 us keep
// less of it beside a busy loop; yielding the core in the spin was within the noise.
inline constexpr std::chrono::microseconds worker_spins{50}, caller_spins{50};

// After how long a loss a worker rests, and how long: so many times the loss. Beside one busy loop decode kept 59 to
// 65% of its speed in the worst of four runs without rests, 63 to 80% with 4, 68 to 76% with 8, 55 to 74% with 16.
inline constexpr std::chrono::nanoseconds min_loss{200'000}, longest_rest{100'000'000};
inline constexpr int rests = 8;

struct Threads::Workers {
  // `reads`: what the next job reads, as far as it is known.
  Workers(const Options& options, const std::vector<int>& processors, const Announced& reads)
      : next_reads(reads), ranges(static_cast<std::size_t>(options.width)), ahead_of_caller(0, ranges.size()) {
    // Signals are for the program's own threads, but for those of what a thread itself does and of profilers' clocks.
    sigset_t others, before;
    sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) sigdelset(&others, own);
    ::pthread_sigmask(SIG_BLOCK, &others, &before);
    const bool choose = options.pin || processors != processors_of_thread();
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      try {
        workers.emplace_back([this, i] { work(i); });
      } catch (const std::system_error&) {
        break;  // the system gives no more: those that there are do it
      }
#if defined(__linux__)
      const pthread_t handle = workers.back().native_handle();
      ::pthread_setname_np(handle, "inlay");
      if (choose && !processors.empty()) {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (options.pin)
          CPU_SET(processors[i % processors.size()], &set);
        else
          for (const int processor : processors) CPU_SET(processor, &set);
        ::pthread_setaffinity_np(handle, sizeof set, &set);
      }
#endif
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Workers() {
    ends.store(1);
    wake(ends, most);
    calls.fetch_add(1);
    wake(calls, most);
    for (std::thread& worker : workers) worker.join();
  }

  // Tasks first .. first + count - 1.
  void run(index from, index count, void (*what)(void*, index), void* with) {
    task = what, data = with, first = from, modes = fp::float_modes();
    failed.store(false, std::memory_order_relaxed);
    unfinished.store(count, std::memory_order_relaxed);
    ranges[0].word.store(range(0, static_cast<std::uint64_t>(count)));
    call_sleepers(1);  // who calls another when it has its part
    take(0);
    const auto finished = [&] { return unfinished.load(std::memory_order_acquire) == 0; };
    if (!spin(caller_spins, finished, [&] { return ahead_of_caller.ask(next_reads); })) {
      while (!finished()) {
        caller_sleeps.store(1);
        if (unfinished.load() != 0) sleep_while(caller_sleeps, 1);
      }
      caller_sleeps.store(0);
    }
    if (failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  struct alignas(64) Range {
    std::atomic<std::uint64_t> word{0};  // end in the upper half, begin in the lower
  };
  static std::uint64_t range(std::uint64_t begin, std::uint64_t end) { return end << 32 | begin; }
  static std::uint32_t begin_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static std::uint32_t end_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static bool empty(std::uint64_t word) { return begin_of(word) == end_of(word); }

  // A sleeper, and who calls it, each write one number and then read the other's, in one order for all (seq_cst):
  // either the sleeper sees the tasks, or the caller sees the sleeper and changes the word on which it sleeps.
  void work(std::size_t self) {
    long preempted = preemptions();  // when it was asked last
    const auto called = [&] { return any(self) || ends.load() != 0; };
    Announced::Reader ahead(self, ranges.size());
    for (;;) {
      if (!spin(worker_spins, called, [&] { return ahead.ask(next_reads); })) {
        const std::uint32_t seen = calls.load();
        sleepers.fetch_add(1);
        if (!called()) sleep_while(calls, seen);
        sleepers.fetch_sub(1);
      }
      if (ends.load() != 0) return;
      if (!steal(self)) continue;
      const auto before = off_core();
      if (!take(self)) continue;
      const auto lost = off_core() - before;
      if (lost >= min_loss && std::exchange(preempted, preemptions()) != preempted) rest(lost);
    }
  }

  // A thread that was kept from its core while it held a task, and the caller slept for that task, will be again: other
  // work waits for the same core. For some time the caller does without it.
  void rest(std::chrono::nanoseconds lost) {
    sleep_while(ends, 0, rests * lost < longest_rest ? rests * lost : longest_rest);
  }

  void call_sleepers(int count) {
    if (sleepers.load() == 0) return;
    calls.fetch_add(1);
    wake(calls, count);
  }

  // Are there tasks to claim, those of `self` apart, who has none or claims them itself?
  bool any(std::size_t self) const {
    for (std::size_t i = 0; i < ranges.size(); ++i)
      if (i != self && !empty(ranges[i].word.load())) return true;
    return false;
  }

  // Tasks, as long as there are any to claim.
  // Whether the caller slept until the last of them was done.
  bool take(std::size_t self) {
    bool late = false;
    std::atomic<std::uint64_t>& own = ranges[self].word;
    do {
      index done = 0;
      for (std::uint64_t word = own.load(); !empty(word);) {
        if (!own.compare_exchange_weak(word, word + 1)) continue;
        if (!failed.load(std::memory_order_relaxed)) attempt(first + begin_of(word));
        ++done;
        word = own.load();
      }
      if (done > 0 && unfinished.fetch_sub(done) == done && caller_sleeps.exchange(0) != 0) {
        wake(caller_sleeps, 1);
        late = true;
      }
    } while (steal(self));
    return late;
  }

  // The rear half of the first range that has tasks, from the thread's neighbour on, becomes its own, which is empty.
  bool steal(std::size_t self) {
    for (std::size_t k = 1; k < ranges.size(); ++k) {
      std::atomic<std::uint64_t>& other = ranges[(self + k) % ranges.size()].word;
      for (std::uint64_t word = other.load(); !empty(word);) {
        const std::uint32_t begin = begin_of(word), end = end_of(word), middle = begin + (end - begin) / 2;
        if (!other.compare_exchange_weak(word, range(begin, middle))) continue;
        ranges[self].word.store(range(middle, end));
        if (end - middle > 1 || any(self)) call_sleepers(1);  // who goes on with that
        return true;
      }
    }
    return false;
  }

  void attempt(index i) {
    fp::take_float_modes(modes);  // the caller's: a result does not depend on who computes it
    try {
      task(data, i);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }

  const Announced& next_reads;
  // On lines of their own: what is written by turns.
  alignas(64) std::atomic<index> unfinished{0};  // tasks that have not ended
  Word caller_sleeps{0};
  alignas(64) Word calls{0};  // changes whenever sleepers are called
  std::atomic<int> sleepers{0};
  Word ends{0};
  alignas(64) void (*task)(void*, index) = nullptr;
  void* data = nullptr;
  index first = 0;
  std::uint64_t modes = 0;
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<Range> ranges;  // 0: the caller's
  Announced::Reader ahead_of_caller;
  std::vector<std::thread> workers;
};

}  // namespace inlay
