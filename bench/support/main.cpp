#include "bench/support/measure.hpp"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  inlay::bench::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
