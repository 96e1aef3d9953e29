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
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <inlay/core/float_modes.hpp>
#include "cpu_kernels/threads/allowed.hpp"
#include "tests/support/sanitizers.hpp"

namespace inlay {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Waits for what other threads do; a test that would wait for ever fails instead.
template <class Done> bool eventually(Done&& done) {
  const auto end = Clock::now() + 60s;
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// Each of `count` tasks waits for all of them: as many threads have to come.
bool all_meet(const Parallel& parallel, index count) {
  std::atomic<index> here{0};
  std::atomic<bool> met{true};
  parallel(count, [&](index) {
    ++here;
    if (!eventually([&] { return here == count; })) met = false;
  });
  return met;
}

const std::vector<int> widths = {1, 2, 3, 4, 7, 16, 33, 64};

TEST(threads, every_task_runs_once_and_is_done_at_the_end) {
  for (int width : widths) {
    Threads pool({.width = width});
    for (index tasks : {0, 1, 2, 3, 17, 63, 64, 65, 1000})
      for (int round = 0; round < 20; ++round) {
        std::vector<int> ran(static_cast<std::size_t>(tasks));  // no atomics: the end of a job orders them
        pool.parallel()(tasks, [&](index i) { ++ran[static_cast<std::size_t>(i)]; });
        for (int count : ran) ASSERT_EQ(count, 1) << width << " threads, " << tasks << " tasks";
      }
  }
}

TEST(threads, as_many_take_part_as_there_are) {
  for (int width : widths) {
    Threads pool({.width = width});
    EXPECT_EQ(pool.width(), width);
    for (int round = 0; round < 3; ++round) EXPECT_TRUE(all_meet(pool.parallel(), width)) << width;
  }
}

// Uneven tasks, of which the last sleeps longest: whoever runs it, the job waits.
TEST(threads, a_job_does_not_end_before_its_tasks) {
  Threads pool({.width = 4});
  for (int round = 0; round < 100; ++round) {
    std::vector<int> done(9);
    pool.parallel()(9, [&](index i) {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 40));
      done[static_cast<std::size_t>(i)] = 1;
    });
    EXPECT_EQ(done, std::vector<int>(9, 1));
  }
}

// Workers sleep between these jobs, or are about to: none may be forgotten.
TEST(threads, sleepers_are_woken) {
  std::mt19937 random(7);
  for (int width : {2, 3, 5}) {
    Threads pool({.width = width});
    for (int round = 0; round < 300; ++round) {
      // Around the end of their spin, of 50 us. (No sleep: that would not end so early.)
      const auto end = Clock::now() + std::chrono::nanoseconds(40'000 + random() % 30'000);
      while (Clock::now() < end) continue;
      ASSERT_TRUE(all_meet(pool.parallel(), width)) << width << " threads, round " << round;
    }
  }
}

// The caller sleeps while a worker has the last task, or is about to.
TEST(threads, the_caller_is_woken) {
  Threads pool({.width = 2});
  const std::thread::id caller = std::this_thread::get_id();
  std::mt19937 random(8);
  for (int round = 0; round < 800; ++round) {
    const auto late = std::chrono::microseconds(30 + random() % 60);
    std::atomic<int> here{0};
    pool.parallel()(2, [&](index) {
      ++here;
      EXPECT_TRUE(eventually([&] { return here == 2; }));
      if (std::this_thread::get_id() == caller) return;
      const auto end = Clock::now() + late;
      while (Clock::now() < end) continue;
    });
  }
}

std::atomic<bool> held{false}, release_held{false};
void hold(int) {
  held = true;
  while (!release_held) ::usleep(100);
}

// A signal keeps a worker from its work, as a scheduler would: jobs go on without it.
TEST(threads, nobody_waits_for_a_thread_that_is_kept_away) {
  struct sigaction action {};
  action.sa_handler = hold;
  ::sigaction(SIGUSR1, &action, nullptr);
  Threads pool({.width = 2});
  const pthread_t caller = ::pthread_self();
  std::atomic<pthread_t> worker{caller};
  std::atomic<int> here{0};
  pool.parallel()(2, [&](index) {
    if (::pthread_equal(::pthread_self(), caller) == 0) {
      worker = ::pthread_self();
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, SIGUSR1);
      ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
    }
    ++here;
    EXPECT_TRUE(eventually([&] { return here == 2; }));
  });
  ASSERT_EQ(::pthread_equal(worker, caller), 0);
  held = release_held = false;
  ::pthread_kill(worker, SIGUSR1);
  ASSERT_TRUE(eventually([] { return held.load(); }));
  // Should a job wait for it, it comes after a minute.
  std::thread rescue([] {
    eventually([] { return release_held.load(); });
    release_held = true;
  });
  for (index tasks : {2, 3, 64, 1000}) {
    std::vector<int> ran(static_cast<std::size_t>(tasks));
    pool.parallel()(tasks, [&](index i) {
      EXPECT_NE(::pthread_equal(::pthread_self(), caller), 0);
      ++ran[static_cast<std::size_t>(i)];
    });
    EXPECT_EQ(ran, std::vector<int>(ran.size(), 1));
  }
  EXPECT_FALSE(release_held);
  release_held = true;
  rescue.join();
  EXPECT_TRUE(all_meet(pool.parallel(), 2));
}

TEST(threads, tasks_may_call_the_pool_again) {
  for (int width : {1, 2, 3, 8}) {
    Threads pool({.width = width}), other({.width = 2});
    std::atomic<int> ran{0};
    pool.parallel()(10, [&](index) {
      pool.parallel()(7,
                      [&](index) { other.parallel()(3, [&](index) { pool.parallel()(2, [&](index) { ++ran; }); }); });
    });
    EXPECT_EQ(ran, 10 * 7 * 3 * 2);
  }
}

TEST(threads, several_threads_may_use_one_pool) {
  Threads pool({.width = 3});
  std::vector<std::thread> callers;
  std::vector<index> sums(4);
  for (index& sum : sums)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        std::vector<index> values(50);
        pool.parallel()(50, [&](index i) { values[static_cast<std::size_t>(i)] = i; });
        for (index value : values) sum += value;
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sums, std::vector<index>(4, 500 * 1225));
}

TEST(threads, what_a_task_throws_the_caller_gets) {
  for (int width : {1, 2, 5}) {
    Threads pool({.width = width});
    for (index wrong = 0; wrong < 40; ++wrong) {
      std::atomic<int> ran{0};
      try {
        pool.parallel()(40, [&](index i) {
          if (i == wrong) throw std::runtime_error("task " + std::to_string(i));
          ++ran;
        });
        FAIL() << "nothing was thrown";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), "task " + std::to_string(wrong));
      }
      EXPECT_LT(ran, 40);
      // All throw: one of them is told.
      EXPECT_THROW(pool.parallel()(40, [](index) { throw std::runtime_error("each"); }), std::runtime_error);
      std::atomic<int> after{0};
      pool.parallel()(40, [&](index) { ++after; });
      EXPECT_EQ(after, 40);
    }
    EXPECT_TRUE(all_meet(pool.parallel(), width));  // who was thrown out has given the pool back
  }
}

TEST(threads, a_pool_ends_while_it_is_idle) {
  for (int round = 0; round < 100; ++round) {
    Threads never({.width = 4});
    Threads pool({.width = 2 + round % 5});
    std::atomic<int> ran{0};
    pool.parallel()(8, [&](index) { ++ran; });
    if (round % 3 == 1) std::this_thread::sleep_for(1ms);  // asleep; else they spin
    if (round % 3 == 2) std::this_thread::sleep_for(std::chrono::microseconds(round / 2));
    EXPECT_EQ(ran, 8);
  }
}

TEST(threads, a_million_empty_jobs) {
  const int jobs = test::thread_sanitizer ? 20'000 : 1'000'000;
  Threads pool({.width = 2});
  const Parallel parallel = pool.parallel();
  std::vector<int> ran(2);
  for (int job = 0; job < jobs; ++job) parallel(2, [&](index i) { ++ran[static_cast<std::size_t>(i)]; });
  EXPECT_EQ(ran, std::vector<int>(2, jobs));
}

// A thread that still looks for tasks of one job is handed those of the next.
TEST(threads, empty_jobs_of_few_tasks) {
  for (int width : {3, 4, 5}) {
    Threads pool({.width = width});
    for (index tasks : {2, 3, 5, 9})
      for (int job = 0; job < 500; ++job) {
        std::array<int, 9> ran{};
        pool.parallel()(tasks, [&](index i) { ++ran[static_cast<std::size_t>(i)]; });
        for (index i = 0; i < 9; ++i) ASSERT_EQ(ran[static_cast<std::size_t>(i)], i < tasks) << width << ", " << i;
      }
  }
}

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
