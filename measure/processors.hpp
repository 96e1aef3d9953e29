// Was the machine ours while we measured? The processor time of this process beside the clock: a figure with less than
// four fifths of its threads times the clock was taken beside other programs, and its share of a limit means nothing.
//
// Threads that wait have to spin for that. OpenMP's own choice (libgomp) is to spin for some milliseconds and to sleep
// then, and passive ones sleep at once. Processor time / clock of two threads on two quiet cores:
//
//   OMP_WAIT_POLICY                          active   unset          passive
//   calls of 1 ms, in parallel               2.0      1.7 to 1.9     1.9
//   calls of 5 us, in parallel               2.0      2.0            0.9, and ten times as long
//   1 ms by one thread, 1 ms in parallel     2.0      2.0            1.5
//   calls of 3 us by one thread              2.0      1.1            1.0
//
// so a program that measures waits actively, unless its user chose another policy.
//
// What a hypervisor takes away is not seen here: a guest counts it as its own time.
#pragma once

#include <chrono>
#include <ctime>

namespace inlay::measure {

// Begins the program anew with OMP_WAIT_POLICY where the variable is not set: OpenMP reads it once, before main(). Call
// it first; elsewhere than on Linux it does nothing. `passively`: for what has threads of its own, from which those that
// spin would take the processors (PoCL: 0.44 of the CPU's speed became 0.71 in decode attention).
void wait_actively();
void wait_passively();

// Processor time and clock over stretches of work.
class Processors {
 public:
  void begin() {
    clock_ = now();
    used_ = used();
  }
  void end() {
    taken_ += used() - used_;
    passed_ += now() - clock_;
  }
  bool disturbed(int threads) const { return taken_ < least * threads * passed_; }

 private:
  static constexpr double least = 0.8;
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  static double used() {  // of all threads of this process, those that run now too
    std::timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  double clock_ = 0, used_ = 0, passed_ = 0, taken_ = 0;
};

}  // namespace inlay::measure
