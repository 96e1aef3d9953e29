// How a thread waits: a short spin, then in the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace inlay {

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Until done(), or for `most`: whether it is. Between two looks meanwhile() does a little, and says whether it did.
template <class Done, class Meanwhile> bool spin(std::chrono::microseconds most, Done&& done, Meanwhile&& meanwhile) {
  if (done()) return true;  // before the clock is asked
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + most;
  do
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      if (!meanwhile()) pause();
    }
  while (Clock::now() < end);
  return done();
}

// Sleeps while the word holds `value`, perhaps shorter; wakes up to `count` of those who sleep on it.
using Word = std::atomic<std::uint32_t>;
#if defined(__linux__)
inline void sleep_while(Word& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
inline void sleep_while(Word& word, std::uint32_t value, std::chrono::nanoseconds most) {
  const std::timespec time{.tv_sec = most.count() / 1'000'000'000, .tv_nsec = most.count() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &time, nullptr, 0);
}
inline void wake(Word& word, int count) { ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0); }
#else
inline void sleep_while(Word& word, std::uint32_t value) { word.wait(value); }
inline void sleep_while(Word&, std::uint32_t, std::chrono::nanoseconds most) { std::this_thread::sleep_for(most); }
inline void wake(Word& word, int) { word.notify_all(); }
#endif

// The clock, less the processor time of this thread: how long it was off its core, from some moment on.
inline std::chrono::nanoseconds off_core() {
  std::timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::steady_clock::now().time_since_epoch() - std::chrono::seconds(used.tv_sec) -
         std::chrono::nanoseconds(used.tv_nsec);
}

// How often the system has taken this thread's core from it. (A thread that sleeps or reads a file is off its core
// too.)
#if defined(__linux__)
inline long preemptions() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}
#else
inline long preemptions() {
  thread_local long count = 0;  // not known: each time it may have been
  return ++count;
}
#endif

}  // namespace inlay
