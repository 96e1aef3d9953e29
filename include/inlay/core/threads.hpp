// Threads of the library's own, made for machines that are never empty: a container with a quota, a laptop, a server
// with neighbours. OpenMP's loop ends when every thread of its team has come to the end, also one that the system keeps
// off its core; here a job ends when its tasks are done, whoever did them:
//
//   caller    publishes n tasks, wakes those who sleep, takes tasks itself until none is left, and waits for
//             the tasks that others hold
//   worker    takes a task as long as there is one, then spins for a moment, then sleeps in the kernel
//
// So a worker that comes late finds nothing to do and nobody waits for it. A task that it holds while it is off its
// core cannot be taken back: the size of a task bounds what is lost, and kernels cut theirs small (Parallel::ranges).
//
//   inlay::Cpu cpu(inlay::threads(4));       // the process's own pool of four, the caller being one of them
//   inlay::Threads pool({.width = 4});       // or one of yours, which outlives every Cpu that uses it
//   inlay::Cpu other(pool.parallel());
//
// A task may call the pool again, and several threads may use one pool: who finds it taken does its own work itself.
// What a task throws, the caller gets (the first of several; tasks that have not begun are left out). After fork() the
// child makes threads of its own when it first needs them; the fork must not come from within a task.
// The process's own pools end with the process, or with the library that holds them where dlclose() unloads it.
// Workers may use the processors that the thread may which makes the pool (in a child: which hands out the first job).
// They compute in the modes of who calls, rounding and flushing of subnormal numbers, whatever his last job had.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/parallel.hpp>

namespace inlay {

class Announced;

inline namespace INLAY_VERSION_NAMESPACE {

class Threads {
 public:
  struct Options {
    int width = 0;     // the caller counts: 1 makes no thread. 0 and less: default_width(); at most Threads::most
    bool pin = false;  // worker i stays on the i-th processor that the process may use; the caller stays free
  };
  static constexpr int most = 1024;

  Threads() : Threads(Options{}) {}
  explicit Threads(const Options& options);
  ~Threads();  // no job may be under way
  Threads(Threads&&) = delete;

  int width() const { return options_.width; }
  // Refers to this pool.
  Parallel parallel();
  // task(data, i) for each i < tasks; returns when all are done.
  void run(index tasks, void (*task)(void* data, index i), void* data);
  // See Parallel::Ahead.
  void expect(const void* begin, std::size_t bytes);
  // Ends the workers for good, unless a job is under way: from then on run() does all tasks itself.
  void close();

 private:
  struct Workers;
  void forget();  // in a child of fork()

  Options options_;
  std::vector<int> processors_;            // that workers may use
  std::unique_ptr<Announced> next_reads_;  // as expect() was told
  std::unique_ptr<Workers> workers_;       // made by the first job that is handed out
  std::atomic<bool> taken_{false};
};

}  // namespace INLAY_VERSION_NAMESPACE

// The process's own pool of this width, made when it is first asked for and kept until the process ends.
// 0 and less: default_width(); at most Threads::most.
Parallel threads(int width = 0);

// How many threads this process should have: $INLAY_THREADS where that is a number from 1 to Threads::most, else the
// processors that its affinity leaves it, fewer where a cgroup allows less processor time.
int default_width();

// Processors' worth of time that cgroups grant, rounded up: the least of the process's own group and those above it, in
// version 1 and 2. None where there is no limit, or none that can be understood. `read` gives a file's contents, empty
// where there is none.
using ReadFile = std::function<std::string(const std::string& path)>;
std::optional<int> cgroup_processors(const ReadFile& read);

}  // namespace inlay
