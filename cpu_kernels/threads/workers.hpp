// The workers of a pool, and what they share with the thread that calls it. One job at a time.
//
// A job's tasks lie in ranges, one for each thread, which takes tasks from the front of its own:
//
//   caller    [ b ..... e )         all threads are awake: each has its part from the beginning
//   worker 1  [ b ..... e )
//
//   caller    [ b ........ e )      somebody sleeps, or they are many: the whole job is the caller's at first
//   worker 1  [ )                   who has none takes the rear half of another's
//   worker 2  [ )
//
// so that a thread's tasks are neighbours: what the end of one prefetches is the beginning of the next, and memory sees
// one stream a thread (decode of qwen2.5-0.5b in w4a16: 135 to 145 tok/s; taken one by one from one counter 94 to 115).
//
// A range is one word, so whoever changes it holds what it took. Ranges hold tasks only while a job is under way: a
// claim that succeeds is one of that job, however long its thread has been away since it read the word. The job's plain
// fields change only while no task is unfinished, and are read only by who has claimed one.
//
// A line that another core has written is on its way for a tenth of a microsecond or two, and a token of SmolLM2-135M
// has 150 jobs. So a worker looks at one line, in which its tasks and the job's fields come together, and counts what
// it has done in a line that nobody else writes. From the beginning of a job to a worker's first task: 0.65 us, and 1.5
// us when it had to steal its first tasks, read the job's fields elsewhere and ask for its processor time (Zen 4,
// virtual).
#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
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

// To ask for a thread's processor time is a call of the system (0.5 us on a Zen 4's virtual machine), which took as
// long as the first task of a small job. A worker asks while it waits, once in so long.
inline constexpr std::chrono::nanoseconds off_core_is_known{100'000};

// Pools of at most so many threads hand each its part; in larger ones the caller would be long at writing lines. Two
// are what it was measured with.
inline constexpr std::size_t handed_most = 4;

struct Threads::Workers {
  // `reads`: what the next job reads, as far as it is known.
  Workers(const Options& options, const std::vector<int>& processors, const Announced& reads)
      : next_reads(reads), lanes(static_cast<std::size_t>(options.width)), ahead_of_caller(0, lanes.size()) {
    // Signals are for the program's own threads, but for those of what a thread itself does and of profilers' clocks.
    sigset_t others, before;
    sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) sigdelset(&others, own);
    ::pthread_sigmask(SIG_BLOCK, &others, &before);
    const bool choose = options.pin || processors != processors_of_thread();
    for (std::size_t i = 1; i < lanes.size(); ++i) {
      try {
        workers.emplace_back([this, i] { work(i); });
      } catch (const std::system_error&) {
        absent.store(static_cast<int>(lanes.size() - i));
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
    const Job next{.task = what, .data = with, .first = from, .modes = fp::float_modes()};
    if (failed.load(std::memory_order_relaxed)) failed.store(false, std::memory_order_relaxed);
    expected.store(expected.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    const std::size_t threads = lanes.size();
    const bool few = threads <= handed_most;
    if (!few) job = next;
    // Where one is missing none is handed its part: what others have to take of it is no stream of theirs.
    const bool hand = few && sleepers.load(std::memory_order_relaxed) + absent.load(std::memory_order_relaxed) == 0;
    // Jobs before ranges: who has no part yet may take some of another's, and then needs none.
    if (few)
      for (Lane& lane : lanes) lane.job = next;
    auto end = static_cast<std::uint64_t>(count);
    for (std::size_t i = threads; hand && --i > 0;) {
      const std::uint64_t begin = (static_cast<std::uint64_t>(count) * i + threads - 1) / threads;
      std::uint64_t own = lanes[i].word.load();
      if (empty(own) && lanes[i].word.compare_exchange_strong(own, range(begin, end))) end = begin;
    }
    lanes[0].word.exchange(range(0, end));  // as all that one writes before it looks whether another sleeps: work()
    call_sleepers(1);  // who calls another when it has its part
    take(0);
    if (const auto ended = [&] { return finished(); };
        !spin(caller_spins, ended, [&] { return ahead_of_caller.ask(next_reads); })) {
      while (!finished()) {
        caller_sleeps.exchange(1);
        if (!finished()) sleep_while(caller_sleeps, 1);
      }
      caller_sleeps.store(0);
    }
    if (failed.load(std::memory_order_relaxed)) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  struct Job {
    void (*task)(void*, index) = nullptr;
    void* data = nullptr;
    index first = 0;
    std::uint64_t modes = 0;
  };
  // One thread's; 0: the caller's.
  struct alignas(128) Lane {
    std::atomic<std::uint64_t> word{0};       // its range: end in the upper half, begin in the lower
    Job job;                                  // where there are few threads
    alignas(128) std::atomic<index> done{0};  // tasks that it has ended, of all jobs; it alone writes this
  };
  static std::uint64_t range(std::uint64_t begin, std::uint64_t end) { return end << 32 | begin; }
  static std::uint32_t begin_of(std::uint64_t word) { return static_cast<std::uint32_t>(word); }
  static std::uint32_t end_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  static bool empty(std::uint64_t word) { return begin_of(word) == end_of(word); }

  // Of all tasks so far.
  bool finished() const {
    index done = 0;
    for (const Lane& lane : lanes) done += lane.done.load();
    return done == expected.load();
  }

  // A sleeper, and who calls it, each write one number and then read the other's, in one order for all (seq_cst):
  // either the sleeper sees the tasks, or the caller sees the sleeper and changes the word on which it sleeps. They are
  // written by exchanges and sums: behind a plain store qemu-user 7.2 lets loads pass it (LDAR before STLR: neither of
  // two threads saw the other in 2,000 of 3 million rounds), and a test slept for ever. On x86 both are one XCHG.
  void work(std::size_t self) {
    long preempted = preemptions();  // when it was asked last
    using Clock = std::chrono::steady_clock;
    auto asked = Clock::now();
    auto away = off_core();
    const auto ask_again = [&] {
      if (Clock::now() - asked > off_core_is_known) away = off_core(), asked = Clock::now();
    };
    const auto handed = [&] { return !empty(lanes[self].word.load()); };
    const auto called = [&] { return handed() || any(self) || ends.load() != 0; };
    // At the others' ranges seldom: who takes a task from one must have its line alone.
    unsigned looks = 0;
    const auto looked = [&] { return handed() || (++looks % 8 == 0 && called()); };
    Announced::Reader ahead(self, lanes.size());
    const auto meanwhile = [&] {
      if (ahead.ask(next_reads)) return true;
      if (looks % 16 == 0) ask_again();
      return false;
    };
    for (;;) {
      if (!spin(worker_spins, looked, meanwhile)) {
        const std::uint32_t seen = calls.load();
        sleepers.fetch_add(1);
        if (!called()) sleep_while(calls, seen);
        sleepers.fetch_sub(1);
        ask_again();
      }
      if (ends.load() != 0) return;
      if (!handed() && !steal(self)) continue;
      const auto began = Clock::now();
      if (!take(self)) continue;
      const auto lost = std::min<std::chrono::nanoseconds>(off_core() - away, Clock::now() - began);
      if (lost >= min_loss && std::exchange(preempted, preemptions()) != preempted) rest(lost);
      ask_again();
    }
  }

  // A thread that was kept from its core while it held a task, and the caller slept for that task, will be again: other
  // work waits for the same core. For some time the caller does without it.
  void rest(std::chrono::nanoseconds lost) {
    absent.fetch_add(1);
    sleep_while(ends, 0, rests * lost < longest_rest ? rests * lost : longest_rest);
    absent.fetch_sub(1);
  }

  void call_sleepers(int count) {
    if (sleepers.load() == 0) return;
    calls.fetch_add(1);
    wake(calls, count);
  }

  // Are there tasks to claim, those of `self` apart, who has none or claims them itself?
  bool any(std::size_t self) const {
    for (std::size_t i = 0; i < lanes.size(); ++i)
      if (i != self && !empty(lanes[i].word.load())) return true;
    return false;
  }

  // Tasks, as long as there are any to claim.
  // Whether the caller slept until the last of them was done.
  bool take(std::size_t self) {
    bool late = false;
    std::atomic<std::uint64_t>& own = lanes[self].word;
    do {
      index done = 0;
      for (std::uint64_t word = own.load(); !empty(word);) {
        if (!own.compare_exchange_weak(word, word + 1)) continue;
        attempt(self, begin_of(word));
        ++done;
        word = own.load();
      }
      late = ended(self, done) || late;
    } while (steal(self));
    return late;
  }

  // As for sleepers: the caller sees that all is done, or who was last sees that the caller sleeps, and wakes it.
  bool ended(std::size_t self, index tasks) {
    if (tasks == 0) return false;
    std::atomic<index>& done = lanes[self].done;
    done.fetch_add(tasks);
    if (self == 0 || caller_sleeps.load() == 0 || !finished() || caller_sleeps.exchange(0) == 0) return false;
    wake(caller_sleeps, 1);
    return true;
  }

  // The rear half of the first range that has tasks, from the thread's neighbour on, becomes its own, which was empty.
  bool steal(std::size_t self) {
    for (std::size_t k = 1; k < lanes.size(); ++k) {
      std::atomic<std::uint64_t>&own = lanes[self].word, &other = lanes[(self + k) % lanes.size()].word;
      for (std::uint64_t word = other.load(); !empty(word);) {
        const std::uint32_t begin = begin_of(word), end = end_of(word), middle = begin + (end - begin) / 2;
        if (!other.compare_exchange_weak(word, range(begin, middle))) continue;
        std::uint64_t before = own.load();
        if (empty(before) && own.compare_exchange_strong(before, range(middle, end))) {
          if (end - middle > 1 || any(self)) call_sleepers(1);  // who goes on with that
          return true;
        }
        // The job is one that began meanwhile, and has handed this thread its part. What it took beside that nobody
        // else can have. (Four to nine times in a million empty jobs, so that tests see a mistake here on quiet cores
        // only.)
        for (std::uint32_t i = middle; i < end; ++i) attempt(self, i);
        ended(self, end - middle);
        return true;
      }
    }
    return false;
  }

  void attempt(std::size_t self, std::uint32_t i) {
    if (failed.load(std::memory_order_relaxed)) return;
    const Job& of = lanes.size() <= handed_most ? lanes[self].job : job;
    fp::take_float_modes(of.modes);  // the caller's: a result does not depend on who computes it
    try {
      of.task(of.data, of.first + i);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }

  const Announced& next_reads;
  // On a line of their own: what is seldom written, and read at every job.
  alignas(64) Word calls{0};                // changes whenever sleepers are called
  std::atomic<int> sleepers{0}, absent{0};  // who sleeps till it is called; who rests, or could not be made
  Word ends{0}, caller_sleeps{0};
  std::atomic<bool> failed{false};
  alignas(64) std::atomic<index> expected{0};  // tasks of all jobs, this one's among them
  std::exception_ptr error;
  alignas(64) Job job;  // where there are many threads
  std::vector<Lane> lanes;
  Announced::Reader ahead_of_caller;
  std::vector<std::thread> workers;
};

}  // namespace inlay
