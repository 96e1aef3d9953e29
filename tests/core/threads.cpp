#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>

#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/core/threads/meet.hpp"
#include "tests/support/sanitizers.hpp"

namespace inlay {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::all_meet, test::eventually;

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

}  // namespace
}  // namespace inlay
