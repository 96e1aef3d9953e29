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
ClOnHost* device_to_measure() {
  if (std::getenv("INLAY_BENCH_CL") == nullptr) return nullptr;
  static ClOnHost* const device = [] {
    auto cl = Cl::make();
    if (cl && !cl->device().is_cpu) cl = Cl::make({.profiling = true});  // where the host's clock is not the kernels'
    if (!cl) {
      std::fprintf(stderr, "INLAY_BENCH_CL: %s\n", std::string(cl.error().message()).c_str());
      std::exit(2);
    }
    return new ClOnHost(std::move(*cl));
  }();
  return device;
}

// Two of 256 MiB, more than a device's cache, and the faster of two copies.
double ClOnHost::copy_rate() {
  constexpr std::size_t bytes = 256u << 20;
  static const auto copied = [&] {
    std::pair<cl_mem, cl_mem> made;
    for (cl_mem* one : {&made.first, &made.second}) {
      *one = clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE, bytes, nullptr, nullptr);
      const unsigned char pattern = 0x5a;
      clEnqueueFillBuffer(cl_.queue(), *one, &pattern, 1, 0, bytes, 0, nullptr, nullptr);
    }
    return made;
  }();
  double best = 0;
  for (int i = 0; i < 2; ++i) {
    cl_event event = nullptr;
    cl_ulong begin = 0, end = 0;
    if (clEnqueueCopyBuffer(cl_.queue(), copied.first, copied.second, 0, 0, bytes, 0, nullptr, &event) != CL_SUCCESS)
      continue;
    clWaitForEvents(1, &event);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr);
    clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr);
    clReleaseEvent(event);
    if (end > begin) best = std::max(best, 2.0 * bytes / (static_cast<double>(end - begin) * 1e-9));
  }
  return best;
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
    keep_best(limit_, limits_(work_));
    if (work_.also_fma) keep_best(fma_limit_, limits_({.flops = work_.flops, .limit = Limit::fma}));
  }
  since_probe_ = 0;
  processors_.begin();
  running_ = true;
}

void Figure::report(benchmark::State& state, const std::string& problem, const Deviation& deviation) {
  pause();
  const double time = measure::median(times_);
  const int width = cpu_.parallel().width;
  const bool disturbed = !alone_ && processors_.disturbed(width);
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
  state.SetLabel(who + (alone_ ? "" : " x" + std::to_string(width)) +
                 (measure::short_run() ? " short"
                  : disturbed          ? " disturbed"
                                       : "") +
                 (good ? " PASS" : " FAIL: " + (problem.empty() ? deviation.what : problem)));
}

}  // namespace inlay::bench
