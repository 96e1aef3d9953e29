#include "bench/support/measure.hpp"

#include <cstdio>

namespace inlay::bench {

namespace {

bool any_failed = false;

void keep_best(double& best, double now) {
  if (best == 0 || now < best) best = now;
}

}  // namespace

bool failed() { return any_failed; }

#ifdef INLAY_HAS_CL
ClOnHost* device_beside_cpu() {
  if (std::getenv("INLAY_BENCH_CL") == nullptr) return nullptr;
  static ClOnHost* const device = [] {
    auto cl = Cl::make();
    if (cl && !cl->device().is_cpu) cl = failure(unsupported(cl->device().name + " is no CPU: its memory is its own"));
    if (!cl) {
      std::fprintf(stderr, "INLAY_BENCH_CL: %s\n", std::string(cl.error().message()).c_str());
      std::exit(2);
    }
    return new ClOnHost(std::move(*cl));
  }();
  return device;
}
#endif

void Figure::pause() {
  if (running_) processors_.end();
  running_ = false;
  since_probe_ = between_probes;
}

void Figure::probe() {
  pause();
  if (!measure::short_run()) {
    keep_best(limit_, limit_seconds(cpu_, work_));
    if (work_.also_fma) keep_best(fma_limit_, limit_seconds(cpu_, {.flops = work_.flops, .limit = Limit::fma}));
  }
  since_probe_ = 0;
  processors_.begin();
  running_ = true;
}

void Figure::report(benchmark::State& state, const std::string& problem, const Deviation& deviation) {
  pause();
  const double time = measure::median(times_);
  const int width = cpu_.parallel().width;
  const bool disturbed = processors_.disturbed(width);
  state.SetIterationTime(time);
  state.counters["calls"] = static_cast<double>(times_.size());
  if (work_.limit == Limit::memory)
    state.counters["GB/s"] = work_.bytes / time * 1e-9;
  else
    state.counters["GFLOP/s"] = work_.flops / time * 1e-9;
  if (limit_ > 0 && !disturbed) state.counters["share"] = limit_ / time;
  if (fma_limit_ > 0 && !disturbed) state.counters["fma"] = fma_limit_ / time;
  state.counters["error"] = deviation.error;
  const bool good = problem.empty() && deviation.error <= 1;
  any_failed = any_failed || !good;
  const std::string who = who_.empty() ? std::string(inlay::name(cpu_.isa())) : who_;
  state.SetLabel(who + " x" + std::to_string(width) +
                 (measure::short_run() ? " short"
                  : disturbed          ? " disturbed"
                                       : "") +
                 (good ? " PASS" : " FAIL: " + (problem.empty() ? deviation.what : problem)));
}

}  // namespace inlay::bench
