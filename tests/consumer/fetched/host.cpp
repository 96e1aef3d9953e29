// One process with two versions of Inlay, each in a library of its own: loaded apart from one another and unloaded
// again, or, with -DLINKED, both linked; called from many threads at once, and behind a fork().
//
//   host earlier.so later.so
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Plugin = const char* (*)();

[[noreturn]] void fail(const char* what) {
  std::printf("%s\n", what);
  std::exit(1);
}

void use(Plugin earlier, Plugin later) {
  const char* const one = earlier();
  const char* const other = later();
  if (one == nullptr || other == nullptr)
    fail(one == nullptr ? "the earlier version is wrong" : "the later version is wrong");
  if (std::string_view(one) == other) fail("both libraries hold one version");
}

void use_everywhere(Plugin earlier, Plugin later) {
  use(earlier, later);
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) threads.emplace_back([=] { i % 2 == 0 ? use(earlier, later) : use(later, earlier); });
  for (std::thread& thread : threads) thread.join();
  const pid_t child = ::fork();
  if (child == 0) {
    use(later, earlier);
    std::_Exit(0);
  }
  int status = -1;
  if (::waitpid(child, &status, 0) != child || status != 0) fail("a child of fork() fails");
  use(earlier, later);
}

}  // namespace

#if defined(LINKED)
extern "C" const char *earlier(), *later();

int main() {
  use_everywhere(earlier, later);
  return 0;
}
#else
namespace {

struct Loaded {
  void* library;
  Plugin plugin;

  Loaded(const char* path, const char* name)
      : library(::dlopen(path, RTLD_NOW | RTLD_LOCAL)), plugin(reinterpret_cast<Plugin>(::dlsym(library, name))) {
    if (library == nullptr || plugin == nullptr) fail(::dlerror());
  }
};

void unload(const Loaded& loaded, const char* path) {
  if (::dlclose(loaded.library) != 0) fail(::dlerror());
  if (::dlopen(path, RTLD_NOW | RTLD_NOLOAD) != nullptr) fail("an unloaded library is still there");
}

}  // namespace

int main(int, char** paths) {
  for (int cycle = 0; cycle < 100; ++cycle) {
    const Loaded earlier(paths[1], "earlier"), later(paths[2], "later");
    if (cycle == 0)
      use_everywhere(earlier.plugin, later.plugin);
    else
      use(earlier.plugin, later.plugin);
    unload(cycle % 2 == 0 ? earlier : later, paths[cycle % 2 == 0 ? 1 : 2]);
    if ((cycle % 2 == 0 ? later : earlier).plugin() == nullptr) fail("what is left is wrong");
    unload(cycle % 2 == 0 ? later : earlier, paths[cycle % 2 == 0 ? 2 : 1]);
  }
  return 0;
}
#endif
