// Was the machine ours while we measured? A figure whose threads were kept from the processors for a fifth of its time
// was taken beside other programs, and its share of a limit means nothing. Two signs of it: less processor time than
// four fifths of the clock, as the thread that calls always works; and how often the scheduler took a processor away
// from one of the threads, each time for a slice of some milliseconds. (All threads' processor time is no sign: work
// that is too small to be handed out has one, and threads that wait sleep.)
//
// OpenMP's threads are to wait as they would in a program that has the machine for itself: libgomp's choice is to spin
// for some milliseconds and to sleep then, and calls of 5 us take ten times as long where they sleep at once. So a
// program that measures waits actively, unless its user chose another policy. Inlay's own threads do not read the
// variable.
//
// What a hypervisor takes away is not seen here: a guest counts it as its own time.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <ctime>

namespace inlay::measure {

// Begins the program anew with OMP_WAIT_POLICY where the variable is not set: OpenMP reads it once, before main(). Call
// it first; elsewhere than on Linux it does nothing. `passively`: for what has threads of its own, from which those
// that spin would take the processors (PoCL: 0.44 of the CPU's speed became 0.71 in decode attention).
void wait_actively();
void wait_passively();

// Processor time and clock over stretches of work.
class Processors {
 public:
  void begin() {
    before_ = now_used();
    clock_ = now();
  }
  void end() {
    passed_ += now() - clock_;
    const Used after = now_used();
    taken_ += after.time - before_.time;
    evictions_ += after.evictions - before_.evictions;
  }
  bool disturbed(int threads) const {
    return taken_ < (1 - most) * passed_ || static_cast<double>(evictions_) * slice > most * threads * passed_;
  }

 private:
  static constexpr double most = 0.2, slice = 4e-3;
  struct Used {  // by all threads of this process, those that run now too
    double time;
    long evictions;
  };
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static Used now_used() {
    std::timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return {static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9, usage.ru_nivcsw};
  }

  Used before_{};
  double clock_ = 0, passed_ = 0, taken_ = 0;
  long evictions_ = 0;
};

}  // namespace inlay::measure
