// A struct that crashes the process or does not come back is told, too, before all ends.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

// Of the sanitizers, where there are any.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace inlay::fuzz {

class Watch {
 public:
  // words() describes the struct that runs as long as this object lives.
  explicit Watch(std::function<std::string()> words) {
    static const bool armed = (arm(), true);
    (void)armed;
    words_ = std::move(words);
    turn_.fetch_add(1);
    running_ = true;
  }
  ~Watch() { running_ = false; }
  Watch(const Watch&) = delete;

 private:
  static constexpr std::chrono::seconds patience{60};

  static void tell() {
    if (!running_.exchange(false)) return;
    const std::string text = "\n" + words_() + "\n";
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) std::abort();
  }
  static void arm() {
    struct sigaction action = {};
    action.sa_handler = [](int number) {
      tell();
      signal(number, SIG_DFL);
      raise(number);
    };
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(number, &action, nullptr);
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(tell);
    std::thread([] {
      for (std::uint64_t seen = 0;;) {
        std::this_thread::sleep_for(patience);
        const std::uint64_t now = turn_;
        if (running_ && now == seen) std::abort();
        seen = now;
      }
    }).detach();
  }

  static inline std::function<std::string()> words_;
  static inline std::atomic<std::uint64_t> turn_{0};
  static inline std::atomic<bool> running_{false};
};

}  // namespace inlay::fuzz
