#include "measure/cases/linear.hpp"

#include "tools/kernels/trial.hpp"

namespace inlay::tools {

namespace {

constexpr Tried linears[] = {tried<Linear<Host>>, tried<LinearInt8<Host>>, tried<LinearW4a16<Host>>};

}  // namespace

constinit const std::span<const Tried> tried_linears = linears;

}  // namespace inlay::tools
