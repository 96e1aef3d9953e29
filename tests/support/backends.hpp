// Runs one case on every backend, ISA level and number of threads, and in every memory space. A backend is one
// line in on_every_backend; a decline that docs/support_table.md does not declare fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/cpu.hpp>

#include "tests/support/handed_out.hpp"
#include "tests/support/levels.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/support_table.hpp"
#include "tests/support/test_space.hpp"
#include "tests/support/turns.hpp"
#ifdef INLAY_TESTS_CL
#include "tests/support/cl_devices.hpp"
#include "tests/support/cl_programs.hpp"
#endif
#ifdef INLAY_TESTS_NPU
#include "tests/support/npu_devices.hpp"
#endif
#include "tests/support/tolerance_report.hpp"

namespace inlay::test {

// Scratch of exactly the bytes asked for, aligned as run demands, with watched bytes behind them.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes)
      : size_(bytes),
        memory_(static_cast<std::byte*>(::operator new(bytes + watched, std::align_val_t(workspace_alignment)))) {
    std::memset(memory_.get(), 0xff, bytes + watched);  // NaN in every float type
  }
  operator Workspace() { return {memory_.get(), size_}; }
  bool overrun() const {
    for (std::size_t i = 0; i < watched; ++i)
      if (memory_.get()[size_ + i] != std::byte{0xff}) return true;
    return false;
  }

 private:
  static constexpr std::size_t watched = 4096;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t(workspace_alignment)); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Runs an operator of host memory, whatever memory the backend computes in. What a backend of the host declines by
// docs/support_table.md runs on the CPU, as in the executor: nothing is proved of this backend then, and it is counted.
template <class Backend, class Op> [[gnu::noinline]] Status run_with_scratch(Backend& backend, const Op& op) {
  if constexpr (RunsOn<Backend, Op>) {
    if (check(op).ok()) {
      expect_declared(backend, op);
      if constexpr (!std::is_same_v<Backend, Cpu>)
        if (supports(backend, op).code() == StatusCode::unsupported) {
          Cpu cpu(serial());
          return run_with_scratch(cpu, op);
        }
    }
    Scratch scratch(workspace_bytes(backend, op));
    Status status = run(backend, op, scratch);
    EXPECT_FALSE(scratch.overrun()) << "more was written than the workspace that was asked for";
    return status;
  } else {
    return run_from_host(backend, op);
  }
}

// The runs of an operator are most of the time that a test takes to compile. A program of several files compiles them
// once: `extern` where the case is that its files share, without it in tests/<op>.cpp.
#define INLAY_RUNS_OF(Op, ...)                                         \
  __VA_ARGS__ template Status run_with_scratch(Cpu&, const Op<Host>&); \
  INLAY_RUNS_ON_CL(Op, __VA_ARGS__)                                    \
  INLAY_RUNS_ON_NPU(Op, __VA_ARGS__)                                   \
  __VA_ARGS__ template Status run_with_scratch(TestDevice&, const Op<Host>&)
#ifdef INLAY_TESTS_CL
#define INLAY_RUNS_ON_CL(Op, ...) __VA_ARGS__ template Status run_with_scratch(WatchedCl&, const Op<Host>&);
#else
#define INLAY_RUNS_ON_CL(Op, ...)
#endif
#ifdef INLAY_TESTS_NPU
#define INLAY_RUNS_ON_NPU(Op, ...) __VA_ARGS__ template Status run_with_scratch(Npu&, const Op<Host>&);
#else
#define INLAY_RUNS_ON_NPU(Op, ...)
#endif

// The levels to test: all that this machine has, down to scalar.
inline std::vector<Cpu> cpus() {
  if (thread_sanitizer) return {Cpu(available_isas().back(), handed_out(3))};
  std::vector<Cpu> list;
  for (Isa isa : available_isas())
    for (int threads : {1, 2, 3}) list.emplace_back(isa, threads == 1 ? serial() : handed_out(threads));
  list.emplace_back(available_isas().back(), handed_out(openmp(2)));
  return list;
}

inline std::string name(const Cpu& cpu) {
  return "cpu " + std::string(inlay::name(cpu.isa())) + ", " + std::to_string(cpu.parallel().width) + " threads";
}

// test(name, run) once for each backend; run(op) returns the Status of the operator. The caller compares with what the
// reference gives. True unless the test failed fatally.
template <class Test, class Backend> bool on_backend(Test& test, Backend& backend, const std::string& label) {
  SCOPED_TRACE(label);
  current_level = label.substr(0, label.find(','));
  test(label, [&](const auto& op) { return run_with_scratch(backend, op); });
  return !::testing::Test::HasFatalFailure();
}

// Those that compute with the host's threads, and have their modes.
template <class Test> void on_every_cpu(Test&& test) {
  for (Cpu& cpu : cpus())
    if (!on_backend(test, cpu, name(cpu))) return;
}
template <class Test> void on_every_npu([[maybe_unused]] Test&& test) {
#ifdef INLAY_TESTS_NPU
  npu_turns(npus(), [&](Npu& npu) { return on_backend(test, npu, name(npu)); });
#endif
}

// Those that compute where the operands lie: for operands that no device could take a copy of.
template <class Test> void on_every_host_backend(Test&& test) {
  on_every_cpu(test);
  if (!::testing::Test::HasFatalFailure()) on_every_npu(test);
}

#ifdef INLAY_TESTS_CL
// A device for one case of a sweep. Where the first program that the case asks for shows nothing that another did not
// (cl_programs.hpp), all of the case runs on the CPU: nothing is proved of this device then. It is a level whose sums
// of products of bf16 have the order that devices promise.
struct SweptCl {
  enum class Case { undecided, runs, left_out };
  static Isa level_in_place() {
    return *std::ranges::find_if(available_isas(), [](Isa isa) { return isa != Isa::avx512_bf16; });
  }
  WatchedCl& device;
  Case is = Case::undecided;
};
template <class Op> [[gnu::noinline]] Status run_with_scratch(SweptCl& swept, const Op& op) {
  if (swept.is != SweptCl::Case::left_out) {
    sweep_programs = {.chosen = swept.is == SweptCl::Case::undecided};
    Status status = run_with_scratch(swept.device, op);
    const bool left_out = std::exchange(sweep_programs, {}).left_out;
    swept.is = left_out ? SweptCl::Case::left_out : SweptCl::Case::runs;
    if (!left_out) return status;
  }
  Cpu cpu(SweptCl::level_in_place(), serial());
  return run_with_scratch(cpu, op);
}

// An OpenCL device in the shape whose turn it is.
template <class Test> void on_every_cl(Test&& test) {
  cl_turns(cl_devices_to_sweep(), [&](WatchedCl* cl) {
    SweptCl swept{*cl};
    return on_backend(test, swept, cl->label());
  });
}
#endif

// Those that have memory of their own; none behind a fatal failure.
template <class Test> void on_every_device(Test&& test) {
#ifdef INLAY_TESTS_CL
  if (!::testing::Test::HasFatalFailure()) on_every_cl(test);
#endif
  TestDevice device;
  if (!::testing::Test::HasFatalFailure()) on_backend(test, device, "test device");
}

template <class Test> void on_every_backend(Test&& test) {
  on_every_host_backend(test);
  on_every_device(test);
}

inline ::testing::AssertionResult ok(const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << name(status.code()) << ": " << status.message();
}

// Whether the words stand in the message: a name of one letter, as k, not as a part of another word.
inline bool names(std::string_view message, std::string_view words) {
  const auto of_a_word = [&](std::size_t at) {
    return at < message.size() && (std::isalnum(static_cast<unsigned char>(message[at])) != 0 || message[at] == '_');
  };
  for (std::size_t at = message.find(words); at != message.npos; at = message.find(words, at + 1))
    if (words.size() > 1 || std::isalpha(static_cast<unsigned char>(words[0])) == 0 ||
        (!of_a_word(at - 1) && !of_a_word(at + 1)))
      return true;
  return false;
}

// The message of a refusal names every given word: the parameter, its value, what it must be.
template <class Op> void expect_refused(const Op& op, std::initializer_list<std::string_view> words) {
  const Status status = check(op);
  ASSERT_FALSE(status.ok()) << "the contract let it pass";
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  for (std::string_view word : words)
    EXPECT_TRUE(names(status.message(), word)) << status.message() << " lacks " << word;
}

}  // namespace inlay::test
