// A plugin with Inlay inside: what it starts must end with it (tests/core/unload.cpp).
#include <atomic>

#include <inlay/core/threads.hpp>

// How many of `tasks` were done, by the process's own pool of three.
extern "C" __attribute__((visibility("default"))) inlay::index run_tasks(inlay::index tasks) {
  std::atomic<inlay::index> done{0};
  inlay::threads(3)(tasks, [&](inlay::index) { ++done; });
  return done;
}

namespace {

// Computes once more when the library is unloaded, behind most of it.
struct Last {
  ~Last() { run_tasks(100); }
} const last;

}  // namespace
