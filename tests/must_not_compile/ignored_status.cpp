// must not compile: nodiscard
#pragma GCC diagnostic error "-Wunused-result"
#include <inlay/core/status.hpp>

inlay::Status work();
void f() { work(); }
