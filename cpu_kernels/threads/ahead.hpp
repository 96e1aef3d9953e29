// What a thread does that waits for a job: it asks memory for what it will begin with (Parallel::Ahead).
//
//   bytes of the next job   | of thread 0 ..  | of thread 1 ..  |
//                           [ asked )         [ asked )              each thread's first tasks, where nobody is late
//
// A worker of SmolLM2-135M is idle for a sixth of a token: behind its last task, and while the caller computes what is
// too small to be handed out. Decode of it in Q4_1 and int8 activations, Zen 4, two cores, 15 turns: 252 -> 267 tok/s.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace inlay {

// Written by the caller, read by all. Who reads while it is written asks for the wrong bytes, once.
class Announced {
 public:
  void announce(const void* begin, std::size_t bytes) {
    begin_.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
    // No addition in one: who announces would wait for the line, which others look at.
    number_.store(number_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // One thread's place in it.
  class Reader {
   public:
    Reader(std::size_t part, std::size_t parts) : part_(part), parts_(parts) {}

    // Asks for the next lines of this thread's part; false where there are none.
    bool ask(const Announced& what) {
      if (const std::uint32_t number = what.number_.load(std::memory_order_acquire); number != number_) {
        number_ = number;
        const std::size_t bytes = what.bytes_.load(std::memory_order_relaxed) / parts_;
        at_ = what.begin_.load(std::memory_order_relaxed) + part_ * bytes;
        left_ = bytes < most ? bytes : most;
      }
      if (left_ < at_once) return false;
      for (std::size_t byte = 0; byte < at_once; byte += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(at_ + byte), 0, 2);
      at_ += at_once, left_ -= at_once;
      return true;
    }

    // What it asks for next.
    std::uintptr_t at() const { return at_; }

    // No more than the second-level cache holds beside what the thread works with; 64 and 256 KB were as good. Between
    // two looks for a task it asks for as much as takes a tenth of a microsecond.
    static constexpr std::size_t most = 128 * 1024, at_once = 512;

   private:
    std::size_t part_, parts_;
    std::uint32_t number_ = 0;
    std::uintptr_t at_ = 0;  // a number: the memory need not be there
    std::size_t left_ = 0;
  };

 private:
  alignas(64) std::atomic<std::uintptr_t> begin_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint32_t> number_{0};
};

}  // namespace inlay
