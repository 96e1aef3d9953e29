// Where the time of a pass goes: each operator of a replayed plan, each job that it hands to the threads, and what
// every thread had of it.
//
//   caller    |rms_norm| linear ..............| rope |      steps, as a plan replays them
//                        | task task task      |            what it does itself of a job; the rest of the job it waits
//   worker 1                | task task task |              what comes before the first is its way to the job
//
// Clocks are read around each step, job and task, which lengthens a pass by what they cost: compare with one that
// nobody observed.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <inlay/core/parallel.hpp>
#include <inlay/core/status.hpp>
#include <inlay/exec/plan/tape.hpp>

namespace inlay::tools {

class Timeline final : public exec::StepObserver {
 public:
  // The same threads, observed. The timeline must outlive what uses them.
  Parallel over(const Parallel& threads);

  // A pass between them is kept.
  void begin_pass();
  void end_pass();

  void begin(std::string_view op, index width) override;
  void end() override;

  // Microseconds of the median pass; 0 where there is none.
  double median_us() const;
  // A line for each operator, of the faster half of the passes: what they have in common is the program's.
  void print() const;
  // The passes so far become one process of the trace, by the name of `what`: its median pass. Others may follow.
  void keep(const std::string& what);
  // What was kept, as a trace that Perfetto (ui.perfetto.dev) opens.
  Status write(const std::string& file) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Span {
    Time begin, end;

    double us() const { return std::chrono::duration<double, std::micro>(end - begin).count(); }
  };
  struct Step : Span {
    std::string_view op;
    index width;
  };
  struct Pass : Span {
    std::vector<Step> steps;
    std::vector<Span> jobs;
    std::vector<std::vector<Span>> tasks;  // of each thread; 0: the caller
  };
  // One thread, which alone writes its tasks; the end of a job hands them to the caller.
  struct alignas(64) Lane {
    std::atomic<std::thread::id> thread{};
    std::vector<Span> tasks;
  };
  struct Job {
    Timeline* timeline;
    void (*task)(void* data, index i);
    void* data;
  };
  struct Row;

  static Time now() { return std::chrono::steady_clock::now(); }
  static void run(void* context, index tasks, void (*task)(void* data, index i), void* data);
  Lane* lane_of_this_thread();
  const Pass* median_pass() const;
  static void add_steps(const Pass& pass, std::vector<Row>& rows);

  Parallel threads_;
  std::vector<Lane> lanes_;
  bool records_ = false;
  Pass pass_;  // that is under way
  std::vector<Pass> passes_;
  std::vector<std::pair<std::string, Pass>> kept_;
};

}  // namespace inlay::tools
