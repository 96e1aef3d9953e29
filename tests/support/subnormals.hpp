// Numbers below a type's smallest normal one, on a thread that flushes them and on one that does not.
// Engines set flush-to-zero for speed (PyTorch's set_flush_denormal, ONNX Runtime's set_denormal_as_zero),
// and an operator that runs on their threads must not turn into something else there.
#pragma once

#include <inlay/core/float_modes.hpp>
#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/small_numbers.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

// On this thread and on those of cpus(), while it lives: results below smallest_normal() become zero, operands
// below it count as zero. Inlay's own threads take the modes of who calls, OpenMP's keep theirs.
class FlushToZero {
 public:
  static constexpr bool works = fp::can_flush;  // otherwise both modes are the same

  explicit FlushToZero(bool on) : on_(on) {
    if (on_) everywhere([] { fp::set_flushes(true); });
  }
  ~FlushToZero() {
    if (on_) everywhere([] { fp::set_flushes(false); });
  }
  FlushToZero(const FlushToZero&) = delete;
  FlushToZero& operator=(const FlushToZero&) = delete;

 private:
  template <class Call> static void everywhere(Call call) {
    call();
#pragma omp parallel num_threads(2)
    call();
  }
  bool on_;
};

// compare(expected, got, lost) on every backend, and with flushing on those that run on the host's threads: a CPU has
// their mode, a simulated NPU must not. Copies of `start` after the reference and the backend ran their op(). `lost` is
// what flushing may take each time that an operand, a product or a sum is below smallest_normal(): that much, or 0.
template <class Case, class Compare> void with_and_without_flushing(const Case& start, Compare&& compare) {
  Case expected = unrounded(start);
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  for (bool flushing : {false, true}) {
    SCOPED_TRACE(flushing ? "flush to zero" : "subnormals");
    const auto one = [&](double lost) {
      return [&, lost](const std::string&, auto run) {
        Case got = start;
        const auto op = got.op();
        {
          FlushToZero mode(flushing);
          ASSERT_TRUE(ok(run(op)));
        }
        compare(expected, got, lost);
      };
    };
    if (!flushing) {
      on_every_backend(one(0));
      continue;
    }
    on_every_cpu(one(smallest_normal()));
    if (!::testing::Test::HasFatalFailure()) on_every_npu(one(0));
  }
}

}  // namespace inlay::test
