// must not compile: View<2
#include <inlay/ops/rms_norm.hpp>

void f(inlay::View<3> x, inlay::ConstView<1> weight) {
  inlay::RmsNorm<inlay::Host> op{.x = x, .weight = weight, .y = {}};
  (void)op;
}
