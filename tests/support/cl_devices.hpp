// The OpenCL device of this machine in both shapes: the per-item shape in the newest language that it compiles, the
// per-group shape in OpenCL C 1.2 with every fallback; or as INLAY_CL_CONFIGURATION says, "per_group CL3.0", "per_item
// CL1.2 fallbacks", and as users get a GPU's kernels "per_group CL3.0 optimized". Buffers lie between watched bytes. A
// sweep builds most of its programs unoptimized.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>

#include "tests/support/requirements.hpp"
#include "tests/support/support_table.hpp"
#include "tests/support/turns.hpp"

namespace inlay::test {

class WatchedCl {
 public:
  using Space = Cl;
  static constexpr std::string_view name = "cl";

  WatchedCl(Cl cl, std::string label) : cl_(std::move(cl)), label_(std::move(label)) {}
  Cl& cl() { return cl_; }
  const std::string& label() const { return label_; }

  Expected<ClAddress> allocate(std::size_t bytes) {
    auto made = cl_.allocate(bytes + 2 * guard_bytes);
    if (!made) return made;
    // NaN in every float type, out of range as every index.
    const std::vector<std::byte> fill(bytes + 2 * guard_bytes, guard);
    if (Status status = cl_.upload(*made, fill); !status.ok()) return failure(std::move(status));
    size_[made->memory] = bytes;
    return ClAddress{made->memory, guard_bytes};
  }
  void release(ClAddress p) {
    const std::size_t bytes = size_.at(p.memory);
    std::vector<std::byte> all(bytes + 2 * guard_bytes);
    EXPECT_TRUE(cl_.download(all, {p.memory, 0}).ok());
    EXPECT_EQ(std::count(all.begin(), all.begin() + guard_bytes, guard), guard_bytes) << "written before a buffer";
    EXPECT_EQ(std::count(all.end() - guard_bytes, all.end(), guard), guard_bytes) << "written behind a buffer";
    size_.erase(p.memory);
    cl_.release({p.memory, 0});
  }
  Status upload(ClAddress to, std::span<const std::byte> from) { return cl_.upload(to, from); }
  Status download(std::span<std::byte> to, ConstClAddress from) { return cl_.download(to, from); }
  Status finish() { return cl_.finish(); }

 private:
  static constexpr std::ptrdiff_t guard_bytes = 256;
  static constexpr std::byte guard{0xff};

  Cl cl_;
  std::string label_;
  std::map<cl_mem, std::size_t> size_;
};
static_assert(OwnsMemory<WatchedCl>);

template <class Op> Status supports(WatchedCl& watched, const Op& op) {
  expect_declared(watched.cl(), op);
  return supports(watched.cl(), op);
}
template <class Op> std::size_t scratch_bytes(WatchedCl& watched, const Op& op) {
  return scratch_bytes(watched.cl(), op);
}
template <class Op> Status compute(WatchedCl& watched, const Op& op, const SpaceWorkspace<Cl>& workspace) {
  return compute(watched.cl(), op, workspace);
}

extern "C" char __executable_start, etext;  // the linker's

// PoCL steps over every division by zero in the process. Kernels may divide so, for a number that nobody reads; in this
// program it would be its end where another driver is.
inline void notice_divisions_by_zero() {
  static struct sigaction of_driver = {};
  struct sigaction ours = {};
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ours.sa_sigaction = [](int signal, siginfo_t* info, void* context) {
    const char* const at = static_cast<const char*>(info->si_addr);
    if (&__executable_start <= at && at < &etext) {
      constexpr std::string_view words = "the program, not a kernel, divided by zero\n";
      if (write(STDERR_FILENO, words.data(), words.size()) >= 0) _exit(1);
    }
    if ((of_driver.sa_flags & SA_SIGINFO) != 0) return of_driver.sa_sigaction(signal, info, context);
    _exit(1);
  };
  sigaction(SIGFPE, &ours, &of_driver);
}

// Every launch tells where it takes a kernel's arguments for others (cl_kernels/runtime/launch.hpp).
constexpr const char* as_used = "-cl-kernel-arg-info";
// ctest knows a file of what PoCL declares, as far as kernels name it: half the time of a program that is not optimized
// (tests/cl/builtins_of_pocl.py).
inline std::string as_written() {
  const char* const declarations = std::getenv("INLAY_CL_DECLARATIONS");
  return std::string("-cl-kernel-arg-info -cl-opt-disable -D WATCH_ALIGNMENT") +
         (declarations ? std::string(" -D _OPENCL_H_ -D INLAY_CL_DECLARATIONS=<") + declarations + ">" : "");
}

// The shapes that this program tests, and how.
inline std::vector<std::pair<std::string, ClOptions>> cl_configurations() {
  // The per-group shape is here to be right: PoCL takes 2.3 s for a variant of its attention, and 0.5 s to build and
  // run it as it is written.
  const ClOptions per_item{.shape = ClShape::per_item, .build_options = as_used},
      per_group{.shape = ClShape::per_group, .build_options = as_written()};
  const char* const wanted = std::getenv("INLAY_CL_CONFIGURATION");
  if (wanted == nullptr) {
    ClOptions old = per_group;
    old.language = "CL1.2";
    old.only_fallbacks = true;
    return {{"cl per-item shape", per_item}, {"cl per-group shape", old}};
  }
  std::istringstream words(wanted);
  std::string shape, language, how;
  words >> shape >> language >> how;
  ClOptions one = shape == "per_group" ? per_group : per_item;
  one.build_options = how == "optimized" ? as_used : as_written();
  one.language = language;
  one.only_fallbacks = how == "fallbacks";
  EXPECT_TRUE((shape == "per_item" || shape == "per_group") && !language.empty() &&
              (how.empty() || how == "fallbacks" || how == "optimized"))
      << "INLAY_CL_CONFIGURATION is '" << wanted << "'";
  return {{"cl " + std::string(wanted), one}};
}

// Never destroyed: a driver may be gone before a static is.
inline std::vector<WatchedCl>& cl_devices_to_test() {
  static std::vector<WatchedCl>& list = *new std::vector<WatchedCl>([] {
    std::vector<WatchedCl> made;
    for (const auto& [label, options] : cl_configurations())
      if (auto cl = Cl::make(options)) made.emplace_back(std::move(*cl), label);
    if (!made.empty()) notice_divisions_by_zero();
    return made;
  }());
  return list;
}

// The same as they are written, not optimized: what has variants that the sweeps do not meet would take PoCL a second
// more for each. INLAY_SWEEP=whole compiles all of them as users get them.
inline std::vector<WatchedCl*>& cl_devices_as_written() {
  static std::vector<WatchedCl*>& list = *new std::vector<WatchedCl*>([] {
    std::vector<WatchedCl*> devices;
    for (WatchedCl& device : cl_devices_to_test()) devices.push_back(&device);
    if (devices.size() != 2 || is_set("INLAY_SWEEP", "whole")) return devices;
    auto [label, options] = cl_configurations().front();
    options.build_options = as_written();
    if (auto cl = Cl::make(options)) devices.front() = new WatchedCl(std::move(*cl), label + ", as written");
    return devices;
  }());
  return list;
}

// Those of a sweep, whose cases take turns: of sixteen in the per-item shape one is compiled as users get it, the
// others as they are written, like the per-group shape. PoCL takes 1.7 s for its attention with optimization and 0.4 s
// without, and a sweep of attention has eighty variants of it.
inline std::vector<WatchedCl*>& cl_devices_to_sweep() {
  static std::vector<WatchedCl*>& list = *new std::vector<WatchedCl*>([] {
    std::vector<WatchedCl*> turns;
    for (WatchedCl& device : cl_devices_to_test()) turns.push_back(&device);
    const std::vector<WatchedCl*>& written = cl_devices_as_written();
    if (turns != written)
      for (int turn = 1; turn < 16; ++turn) turns.insert(turns.end(), written.begin(), written.end());
    return turns;
  }());
  return list;
}

inline Turns cl_turns;

// Every program that tests backends shows whether it had a device.
class HasClDevice : public ::testing::Test {
 public:
  void TestBody() override {
    const auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
};

inline const bool cl_is_shown = [] {
  ::testing::RegisterTest("levels", "cl", nullptr, nullptr, __FILE__, __LINE__,
                          []() -> ::testing::Test* { return new HasClDevice; });
  return true;
}();

}  // namespace inlay::test
