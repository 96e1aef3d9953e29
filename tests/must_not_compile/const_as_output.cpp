// must not compile: ConstView
#include <inlay/ops/rms_norm.hpp>

void f(inlay::ConstView<2> x, inlay::ConstView<1> weight) {
  inlay::RmsNorm<inlay::Host> op{.x = x, .weight = weight, .y = x};
  (void)op;
}
