// One line per figure: shape, time, GB/s or GFLOP/s, share of the limit, error, PASS.
//
// The limit is measured between the calls of the figure, with the same threads: the memory of a shared machine changes
// speed within seconds. The time is the median of the calls, the limit the best of the probes around them: a share
// above 1 would say that the limit was measured wrong. Where others had the processors (measure/processors.hpp) the
// line says `disturbed` and has no share. PASS is said of the last timed call (proof.hpp); without it the
// program's exit status is 1.
//
//   INLAY_THREADS=1       as many threads, in place of two
//   INLAY_BENCH_POOL=openmp   OpenMP's threads in place of Inlay's
//   INLAY_BENCH_SHORT=1   as a test: operands are cut, two timed calls, no limit
//   INLAY_BENCH_CL=1      OpenCL. A CPU's device beside our kernels, by turns: `of_cpu` is the share of their speed.
//                         A GPU alone: the time of its kernels, with a copy from buffer to buffer as memory's limit.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>

#ifdef INLAY_HAS_CL
#include "bench/support/cl_on_host.hpp"
#endif
#include "bench/support/operands.hpp"
#include "bench/support/proof.hpp"
#include "measure/processors.hpp"
#include "measure/timing.hpp"

namespace inlay::bench {

enum class Limit { memory, fma, bf16, int8 };

// What one call moves and computes, and the limit that follows from it.
struct Work {
  double bytes = 0;    // that memory sees: each operand once, and what is written twice, as its lines are read first
  double written = 0;  // those of them that go back to memory
  double flops = 0;    // multiply and add count as two
  Limit limit = Limit::memory;
  bool also_fma = false;  // flops are multiply-adds close to their own limit: its share is printed too
};

// Seconds that the limit needs for `work` on `cpu`, measured now (a few milliseconds).
double limit_seconds(const Cpu& cpu, const Work& work);

// INLAY_THREADS, or two: the floors are stated for two threads.
inline int threads() {
  const char* value = std::getenv("INLAY_THREADS");
  return value ? std::max(1, std::atoi(value)) : 2;
}

inline Cpu cpu() {
  const char* pool = std::getenv("INLAY_BENCH_POOL");
  return Cpu(pool != nullptr && std::string_view(pool) == "openmp" ? openmp(threads()) : inlay::threads(threads()));
}

// The times of a figure's calls, and what was measured around them.
class Figure {
 public:
  using Limits = std::function<double(const Work&)>;  // seconds at best, now; 0: not known

  Figure(const Cpu& cpu, const Work& work)
      : cpu_(cpu), work_(work), limits_([cpu](const Work& part) { return limit_seconds(cpu, part); }) {}
  // `who` computes beside the Cpu, or with limits of its own.
  Figure(const Cpu& cpu, const Work& work, std::string who) : Figure(cpu, work) { who_ = std::move(who); }
  Figure(const Cpu& cpu, const Work& work, std::string who, Limits limits)
      : cpu_(cpu), work_(work), who_(std::move(who)), limits_(std::move(limits)), alone_(true) {}

  // A call that says itself how long it took.
  template <class Call> void time(Call&& call) {
    if (times_.empty() || since_probe_ >= between_probes) probe();
    const double taken = call();
    times_.push_back(taken);
    since_probe_ += taken;
    total_ += taken;
  }
  double median() const { return measure::median(times_); }
  bool enough() const { return measure::short_run() || total_ >= min_total; }

  // What follows is no call of the figure; the next one finds the caches as a probe leaves them.
  void pause();
  // Prints the line. `problem`: a status, or what the last call left out.
  void report(benchmark::State& state, const std::string& problem, const Deviation& deviation);

 private:
  static constexpr double between_probes = 0.02;  // seconds of figure: as long as a probe takes
  static constexpr double min_total = 0.5;

  void probe();

  Cpu cpu_;
  Work work_;
  std::string who_;
  Limits limits_;
  bool alone_ = false;  // the host's processors are not what is measured
  std::vector<double> times_;
  double since_probe_ = 0, total_ = 0;
  double limit_ = 0, fma_limit_ = 0;  // seconds at best; 0: not measured
  measure::Processors processors_;
  bool running_ = false;
};

template <class MakeOp> using OpOf = std::invoke_result_t<MakeOp, index>;

// Times run(backend, op(i)) for i = 1, 2, ...: op(i) should rotate its operands where they would fit a cache. Every
// status counts. The limits are those of `cpu`. between(i) comes before each of the timed calls, and may
// take operands of its own.
template <class Backend, class MakeOp, class Between>
void measure_on(Backend& backend, Figure& figure, benchmark::State& state, const MakeOp& op,
                const Proof<OpOf<MakeOp>>& proof, Between&& between) {
  Deviation deviation;
  std::string problem;
  const auto keep_first = [&](const Status& status) {
    if (!status.ok() && problem.empty()) problem = std::string(status.message());
  };
  for (auto _ : state) {
    BenchWorkspace workspace(workspace_bytes(backend, op(0)));
    const auto call = [&](const auto& it) { keep_first(run(backend, it, workspace)); };
    const auto timed = [&](const auto& it) {
      figure.time([&] {
        if constexpr (requires { backend.seconds([] {}); })
          return backend.seconds([&] { call(it); });
        else
          return measure::seconds([&] { call(it); });
      });
    };
    const auto first = proof.in_place ? bytes_of(outputs(op(0))) : std::vector<std::byte>();  // as of every copy
    call(op(0));                                                                              // first touch
    index i = 1;
    do {
      between(i);
      const auto it = op(i++);
      timed(it);
    } while (!figure.enough() && problem.empty());
    figure.pause();
    const auto last = op(i);
    const std::vector<Output> written = outputs(last);
    if (proof.in_place)
      put_back(written, first);
    else
      poison(written);
    Expected expected;
    keep_first(expect(last, proof, expected));
    if constexpr (requires { backend.send(last); }) keep_first(backend.send(last));
    timed(last);
    if constexpr (requires { backend.receive(last); }) keep_first(backend.receive(last));
    deviation = expected.compare(proof.ulps);
    if (problem.empty() && !proof.in_place) problem = left_out(written);
  }
  figure.report(state, problem, deviation);
}

template <class Backend, class MakeOp>
void measure_on(Backend& backend, const Cpu& cpu, benchmark::State& state, const Work& work, const MakeOp& op,
                const Proof<OpOf<MakeOp>>& proof) {
  Figure figure(cpu, work);
  measure_on(backend, figure, state, op, proof, [](index&) {});
}

#ifdef INLAY_HAS_CL
// The device of INLAY_BENCH_CL; null where it is not asked for. Ends the program where it is and there is none.
ClOnHost* device_to_measure();

// A device with memory of its own.
template <class MakeOp>
void measure_alone(ClOnHost& device, const Cpu& cpu, benchmark::State& state, const Work& work, const MakeOp& op,
                   const Proof<OpOf<MakeOp>>& proof) {
  Figure figure(cpu, work, device.cl().device().name,
                [&](const Work& part) { return part.limit == Limit::memory ? part.bytes / device.copy_rate() : 0; });
  measure_on(device, figure, state, op, proof, [](index&) {});
  device.forget();
}

// A call of the Cpu before each one of the device.
template <class MakeOp>
void measure_beside(ClOnHost& device, const Cpu& cpu, benchmark::State& state, const Work& work, const MakeOp& op,
                    const Proof<OpOf<MakeOp>>& proof) {
  Figure figure(cpu, work, device.cl().device().name);
  BenchWorkspace workspace(workspace_bytes(cpu, op(0)));
  std::vector<double> native;
  measure_on(device, figure, state, op, proof, [&](index& i) {
    const auto it = op(i++);
    native.push_back(measure::seconds([&] { (void)run(cpu, it, workspace).ok(); }));
  });
  state.counters["of_cpu"] = measure::median(native) / figure.median();
}
#endif

template <class MakeOp>
void measure(benchmark::State& state, const Work& work, const MakeOp& op, const Proof<OpOf<MakeOp>>& proof) {
  const Cpu cpu = bench::cpu();
#ifdef INLAY_HAS_CL
  if (ClOnHost* const device = device_to_measure())
    return device->has_memory() ? measure_alone(*device, cpu, state, work, op, proof)
                                : measure_beside(*device, cpu, state, work, op, proof);
#endif
  measure_on(cpu, cpu, state, work, op, proof);
}

// The operator at a size, which says itself what its calls move and compute. Without `rotate` they have the same
// operands.
template <class Shape> using OpAt = decltype(std::declval<const Shape&>().make(std::declval<Tensors&>()));
template <class Shape> Work work_at(const Shape& shape) {
  const CallCost cost = shape.cost();
  return {.bytes = cost.bytes, .written = cost.written, .flops = cost.flops};
}
template <class Shape>
void measure(benchmark::State& state, const Work& work, const Shape& shape, const Proof<OpAt<Shape>>& proof,
             bool rotate = true) {
  Operands operands(rotate);
  measure(
      state, work, [&](index i) { return shape.make(operands.of_call(i)); }, proof);
}
template <class Shape> void measure(benchmark::State& state, const Shape& shape, const Proof<OpAt<Shape>>& proof) {
  measure(state, work_at(shape), shape, proof);
}

// Did a figure fail? The program's exit status.
bool failed();

// Each operator's file defines it: registers the operator's figures with add().
void add_all();

// Registers `function` under "op/shape" with the settings that all figures share: measure() does the repeating.
template <class Function> void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), function)->UseManualTime()->Iterations(1)->Unit(benchmark::kMicrosecond);
}

}  // namespace inlay::bench
