// must not compile: View<2, inlay::Host>
#include <inlay/ops/rms_norm.hpp>

// Device memory handed to an operator on host memory.
namespace inlay {
template <> struct SpacePointer<Cl> {
  using Mutable = int;
  using Const = int;
};
}  // namespace inlay

void f(inlay::View<2, inlay::Cl> device, inlay::ConstView<1> weight) {
  inlay::RmsNorm<inlay::Host> op{.x = device, .weight = weight, .y = {}};
  (void)op;
}
