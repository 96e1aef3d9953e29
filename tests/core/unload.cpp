// dlopen and dlclose of a library that holds us, again and again.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <inlay/core/threads.hpp>

namespace inlay {
namespace {

using RunTasks = index (*)(index);

RunTasks load(void*& library) {
  library = ::dlopen(INLAY_UNLOADED, RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<RunTasks>(::dlsym(library, "run_tasks"));
}

std::ptrdiff_t threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(unload, no_thread_stays_behind) {
  const auto before = threads_of_this_process();
  for (int cycle = 0; cycle < 200; ++cycle) {
    void* library = nullptr;
    const RunTasks run_tasks = load(library);
    ASSERT_NE(run_tasks, nullptr) << ::dlerror();
    ASSERT_EQ(run_tasks(1000), 1000);
    ASSERT_EQ(threads_of_this_process(), before + 2);
    if (cycle % 4 == 0) ::usleep(300);  // the workers sleep, else they spin
    ASSERT_EQ(::dlclose(library), 0);
    ASSERT_EQ(::dlopen(INLAY_UNLOADED, RTLD_NOW | RTLD_NOLOAD), nullptr) << "it is still there";
    // The kernel's list may show a thread that was joined for a moment yet.
    for (int wait = 0; wait < 1000 && threads_of_this_process() != before; ++wait) ::usleep(1000);
    ASSERT_EQ(threads_of_this_process(), before) << "in cycle " << cycle;
  }
}

// A child of fork() has no workers to join, and one that ends within a task does not wait for itself.
TEST(unload, processes_end) {
  for (const bool within_a_task : {false, true}) {
    void* library = nullptr;
    const RunTasks run_tasks = load(library);
    ASSERT_NE(run_tasks, nullptr) << ::dlerror();
    run_tasks(1000);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      if (within_a_task)
        threads(3)(100, [caller = ::pthread_self()](index) {
          if (::pthread_self() != caller) std::exit(7);
          ::usleep(1000);
        });
      run_tasks(1000);
      std::exit(7);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
    ::dlclose(library);
  }
}

// Behind close() a pool computes all the same.
TEST(unload, a_closed_pool_computes_in_its_caller) {
  Threads pool({.width = 3});
  const auto before = threads_of_this_process();
  pool.parallel()(100, [](index) {});
  EXPECT_EQ(threads_of_this_process(), before + 2);
  pool.close();
  index done = 0;
  pool.parallel()(100, [&](index) { ++done; });  // one thread: no atomic
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace inlay
