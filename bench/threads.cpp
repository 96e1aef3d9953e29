// What a job costs that has nothing to do: two empty tasks, in Inlay's threads and in OpenMP's, by turns; medians.
//
//   awake    one job after the other, 1e6 of them: the workers spin meanwhile
//   asleep   after 2 ms without one (libgomp spins longer than that where OMP_WAIT_POLICY is not passive)
//
// INLAY_THREADS: as many threads, in place of two. INLAY_BENCH_SHORT=1: few jobs.
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "bench/support/measure.hpp"

int main() {
  using namespace inlay;
  using measure::median, measure::seconds;
  if (!measure::short_run()) measure::wait_actively();
  const int width = bench::threads(), jobs = measure::short_run() ? 1000 : 200'000, rounds = 5, sleeps = jobs / 1000;
  std::vector<int> ran(2);
  const auto empty = [&](inlay::index i) { ++ran[static_cast<std::size_t>(i)]; };
  struct Pool {
    const char* name;
    Parallel parallel;
    std::vector<double> awake = {}, asleep = {};
  };
  std::vector<Pool> pools = {{"inlay", threads(width)}, {"openmp", openmp(width)}};
  for (int round = 0; round < rounds; ++round)
    for (Pool& pool : pools) {
      pool.parallel(2, empty);
      pool.awake.push_back(seconds([&] {
                             for (int job = 0; job < jobs; ++job) pool.parallel(2, empty);
                           }) /
                           jobs);
      for (int i = 0; i < sleeps; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        pool.asleep.push_back(seconds([&] { pool.parallel(2, empty); }));
      }
    }
  for (const Pool& pool : pools)
    std::printf("%-8s x%d  awake %8.1f ns a job, asleep %8.1f ns a job\n", pool.name, width, 1e9 * median(pool.awake),
                1e9 * median(pool.asleep));
  const int all = 2 * rounds * (1 + jobs + sleeps);
  return ran == std::vector<int>(2, all) ? 0 : 1;
}
