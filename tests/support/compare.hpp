// One case on the reference and on every backend.
#pragma once

#include <utility>

#include "tests/support/backends.hpp"
#include "tests/support/describe.hpp"

namespace inlay::test {

// The case whose reference result is not rounded to f16 or bf16: a case with such outputs has unrounded(), most often
// itself with operands widened (Tensor::widened). tolerance.hpp compares with nothing else.
template <class Case> Case unrounded(const Case& start) {
  if constexpr (requires { start.unrounded(); })
    return start.unrounded();
  else
    return start;
}

enum class SweptOn : unsigned char { every_backend, cpu };

// The reference runs unrounded(start), every backend the bytes of `start`; compare(expected, got) tells what must be
// equal. A failure prints the operator.
template <class Case, class Compare>
void against_the_reference(const Case& start, Compare&& compare, SweptOn where = SweptOn::every_backend) {
  Case expected = unrounded(start);
  SCOPED_TRACE(describe(expected.op()));
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  const auto test = [&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    compare(std::as_const(expected), std::as_const(got));
  };
  where == SweptOn::cpu ? on_every_cpu(test) : on_every_backend(test);
}

}  // namespace inlay::test
