// Which experts a token goes to: the host's for now.
#include <inlay/ops/moe_routing.hpp>

#include "npu_kernels/backend/operator.hpp"

namespace inlay::npu {

Status declined(const Device&, const MoeRouting<Host>&) { return unsupported("moe_routing is the host's"); }

Program program(GlobalMemory&, const MoeRouting<Host>&, const Choices&) { return {}; }

template struct Operator<MoeRouting<Host>>;

}  // namespace inlay::npu
