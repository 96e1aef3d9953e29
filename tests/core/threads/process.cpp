// Threads of a pool as the process has them: fork, processors, signals, floating-point modes, and what they cost idle.
#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include <inlay/core/float_modes.hpp>
#include "cpu_kernels/threads/allowed.hpp"
#include "tests/core/threads/meet.hpp"
#include "tests/support/sanitizers.hpp"

namespace inlay {
namespace {

using namespace std::chrono_literals;
using test::all_meet, test::eventually;

// In the child nothing is left of the threads, and another thread was at work in the pool when it was born.
TEST(threads, a_child_of_fork_makes_its_own) {
  if (test::thread_sanitizer) GTEST_SKIP() << "not under ThreadSanitizer, which ends such a child";
  Threads pool({.width = 3});
  ASSERT_TRUE(all_meet(pool.parallel(), 3));
  ASSERT_TRUE(all_meet(threads(2), 2));
  std::atomic<bool> ends{false};
  std::thread other([&] {
    std::vector<int> ran(50);
    while (!ends) pool.parallel()(50, [&](index i) { ++ran[static_cast<std::size_t>(i)]; });
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(all_meet(pool.parallel(), 3) && all_meet(threads(2), 2) && all_meet(threads(3), 3) ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ends = true;
  other.join();
  EXPECT_TRUE(all_meet(pool.parallel(), 3));
}

// Between two tokens nobody spins.
TEST(threads, idle_ones_use_no_processor) {
  Threads pool({.width = 4});
  ASSERT_TRUE(all_meet(pool.parallel(), 4));
  std::this_thread::sleep_for(20ms);
  const std::clock_t before = std::clock();  // processor time of all threads
  std::this_thread::sleep_for(100ms);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.02);
}

TEST(threads, are_pinned_on_request_only) {
  openmp(2)(2, [](index) {});  // one runtime binds when it is loaded, one when it is first used
  cpu_set_t own;
  ASSERT_EQ(::sched_getaffinity(0, sizeof own, &own), 0);
  // With OMP_PROC_BIND, for a second run of the program, OpenMP has bound this thread: its parent is as it was.
  cpu_set_t all;
  const bool bound = std::getenv("OMP_PROC_BIND") != nullptr;
  ASSERT_EQ(::sched_getaffinity(bound ? ::getppid() : 0, sizeof all, &all), 0);
  EXPECT_EQ(allowed_processors().size(), static_cast<std::size_t>(CPU_COUNT(&all)));
  if (bound && CPU_COUNT(&all) > 1) {
    EXPECT_EQ(CPU_COUNT(&own), 1) << "OpenMP did not bind it";
  }
  for (bool pin : {false, true}) {
    Threads pool({.width = 3, .pin = pin});
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> here{0};
    pool.parallel()(3, [&](index) {
      cpu_set_t mine;
      ++here;
      EXPECT_TRUE(eventually([&] { return here == 3; }));
      if (std::this_thread::get_id() == caller) return;
      const auto pinned = [&] {
        return ::sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) == (pin ? 1 : CPU_COUNT(&all));
      };
      EXPECT_TRUE(eventually(pinned));
    });
    cpu_set_t after;
    ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&after, &own));
  }
}

// Made by a thread that may use all processors, first used by one that may use a single one.
TEST(threads, workers_stay_where_the_pool_was_made) {
  const std::size_t all = allowed_processors().size();
  Threads pool({.width = 2});
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(allowed_processors()[0], &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    const std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> here{0};
    pool.parallel()(2, [&](index) {
      ++here;
      EXPECT_TRUE(eventually([&] { return here == 2; }));
      if (std::this_thread::get_id() == caller) return;
      EXPECT_TRUE(eventually([&] { return processors_of_thread().size() == all; }));
    });
  }).join();
}

// each(thread) on the caller (0) and the workers.
template <class Each> void on_all_threads(Threads& pool, Each&& each) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> here{0}, workers{0};
  pool.parallel()(pool.width(), [&](index) {
    ++here;
    EXPECT_TRUE(eventually([&] { return here == pool.width(); }));
    each(std::this_thread::get_id() == caller ? 0 : ++workers);
  });
}

// Signals of what a worker itself does come to the program's handler; others do not come to it.
TEST(threads, signals) {
  Threads pool({.width = 2});
  on_all_threads(pool, [](int thread) {
    if (thread == 0) return;
    sigset_t blocked;
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &blocked), 0);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      EXPECT_EQ(sigismember(&blocked, own), 0) << own;
    for (const int other : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM})
      EXPECT_EQ(sigismember(&blocked, other), 1) << other;
  });
}

// Rounding and flushing are the caller's of this job, whoever made the threads and whatever the last job had.
TEST(threads, compute_in_the_modes_of_the_caller) {
  Threads pool({.width = 3});
  const std::uint64_t before = fp::float_modes();
  for (int round = 0; round < 6; ++round) {
    ASSERT_EQ(std::fesetround(round % 2 == 0 ? FE_TOWARDZERO : FE_TONEAREST), 0);
    fp::set_flushes(round % 3 == 0);
    const std::uint64_t modes = fp::float_modes();
    std::array<std::uint64_t, 3> seen{};
    on_all_threads(pool, [&](int thread) { seen[static_cast<std::size_t>(thread)] = fp::float_modes(); });
    fp::set_float_modes(before);
    for (const std::uint64_t mode : seen) EXPECT_EQ(mode & ~fp::raised, modes & ~fp::raised) << round;
  }
}

// A worker that sleeps in its task, as for a file, has not lost its core: it comes at once to the next job, where one
// that rests comes 0.1 s later. (Beside other processes it may lose it too, so not in every round; nor does it in any
// that yields its core, which the system counts like a loss.)
TEST(threads, who_sleeps_does_not_rest) {
  Threads pool({.width = 2});
  const std::thread::id caller = std::this_thread::get_id();
  EXPECT_TRUE(eventually([&] {
    bool late = false, came = false;
    pool.parallel()(2, [&](index) {
      const bool mine = std::this_thread::get_id() == caller;
      std::this_thread::sleep_for(mine ? 20ms : 300ms);
      if (!mine) late = true;
    });
    pool.parallel()(2, [&](index) {
      if (std::this_thread::get_id() != caller) came = true;
      std::this_thread::sleep_for(2ms);
    });
    return late && came;
  }));
}

TEST(threads, a_width_without_sense_is_a_sane_one) {
  struct {
    void run(index, const std::function<void(index)>&) {}
  } pool;
  EXPECT_EQ(Threads().width(), default_width());
  EXPECT_EQ(Threads({.width = 0}).width(), default_width());
  EXPECT_EQ(Threads({.width = -7}).width(), default_width());
  EXPECT_EQ(Threads({.width = 1'000'000}).width(), Threads::most);
  EXPECT_EQ(threads(-1).width, default_width());
  EXPECT_EQ(threads(1'000'000).width, Threads::most);
  for (int width : {0, -1}) EXPECT_EQ(Cpu(from_pool(pool, width)).parallel().width, 1);
  EXPECT_EQ(threads(5).context, threads(5).context);
  EXPECT_NE(threads(5).context, threads(6).context);
}

}  // namespace
}  // namespace inlay
