#include <cstdio>

#include "bench/support/measure.hpp"

namespace {

// A line for each figure. The library's own has a column of processor time, which here is that of all calls, of the
// probes and of the reference.
class Lines : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      std::printf("%-*s %10.1f us", static_cast<int>(name_field_width_ - settings.size()), name_of(run).c_str(),
                  run.GetAdjustedRealTime());
      for (const auto& [name, counter] : run.counters)
        std::printf(name == "calls" ? "  %s=%.0f" : "  %s=%.4g", name.c_str(), counter.value);
      std::printf("  %s\n", run.report_label.c_str());
      std::fflush(stdout);
    }
  }

 private:
  // What the library adds to each name: settings that are ours.
  static constexpr std::string_view settings = "/iterations:1/manual_time";
  static std::string name_of(const Run& run) {
    std::string name = run.benchmark_name();
    if (const auto at = name.find(settings); at != name.npos) name.erase(at, settings.size());
    return name;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (!inlay::measure::short_run())
    std::getenv("INLAY_BENCH_CL") == nullptr ? inlay::measure::wait_actively() : inlay::measure::wait_passively();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  inlay::bench::add_all();
  Lines lines;
  benchmark::RunSpecifiedBenchmarks(&lines);
  return inlay::bench::failed() ? 1 : 0;
}
