// One line per benchmark: shape, GB/s or GFLOP/s, share of the limit, error, PASS.
//
// The limit is measured between the iterations of the figure, with the same threads: the memory of a
// shared machine changes speed within seconds. Both are medians.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <inlay/cpu.hpp>

#include "measure/timing.hpp"

namespace inlay::bench {

enum class Limit { read, fma, bf16, int8 };

// What one call moves and computes, and the limit that follows from it.
struct Work {
  double bytes = 0;  // that memory sees: each operand once
  double flops = 0;  // multiply and add count as two
  Limit limit = Limit::read;
  bool also_fma = false;  // flops are multiply-adds close to their own limit: its share is printed too
};

// Seconds that the limit needs for `work` on `cpu`, measured now (a few milliseconds).
double limit_seconds(const Cpu& cpu, const Work& work);

// INLAY_THREADS, or two: the floors are stated for two threads.
inline int threads() {
  const char* value = std::getenv("INLAY_THREADS");
  return value ? std::max(1, std::atoi(value)) : 2;
}

inline Cpu cpu() { return Cpu(openmp(threads())); }

// Times call(iteration), which should rotate its operands where they would fit a cache. `error` is
// the largest deviation from the reference in units of the operator's tolerance: above 1 it fails.
template <class Call>
void measure(benchmark::State& state, const Cpu& cpu, const Work& work, double error, Call&& call) {
  constexpr double between_probes = 0.02;  // seconds of figure: as long as a probe takes
  const Work arithmetic{.flops = work.flops, .limit = Limit::fma};
  std::vector<double> times, limits, fma_limits;
  index iteration = 0;
  double since_probe = between_probes;
  call(iteration++);  // first touch
  for (auto _ : state) {
    const double time = measure::seconds([&] { call(iteration++); });
    times.push_back(time);
    state.SetIterationTime(time);
    if ((since_probe += time) >= between_probes) {
      limits.push_back(limit_seconds(cpu, work));
      if (work.also_fma) fma_limits.push_back(limit_seconds(cpu, arithmetic));
      since_probe = 0;
    }
  }
  const double time = measure::median(times);
  if (work.limit == Limit::read)
    state.counters["GB/s"] = work.bytes / time * 1e-9;
  else
    state.counters["GFLOP/s"] = work.flops / time * 1e-9;
  state.counters["share"] = measure::median(limits) / time;
  if (work.also_fma) state.counters["fma"] = measure::median(fma_limits) / time;
  state.counters["error"] = error;
  state.SetLabel(std::string(inlay::name(cpu.isa())) + " x" + std::to_string(cpu.parallel().width) +
                 (error <= 1 ? " PASS" : " FAIL"));
  if (!(error <= 1)) state.SkipWithError("deviates from the reference");
}

// Each operator's file defines it: registers the operator's figures with add().
void add_all();

// Registers `function` under "op/shape" with the settings that all figures share.
template <class Function> void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), function)->UseManualTime()->MinTime(0.5)->Unit(benchmark::kMicrosecond);
}

}  // namespace inlay::bench
