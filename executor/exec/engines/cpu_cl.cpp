// An engine on the CPU and an OpenCL device at once.
#include <inlay/exec/device/cl_over_host.hpp>

#include "executor/exec/engines/side_by_side.hpp"

namespace inlay::exec {

template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, SideBySide<ClOverHost>,
                                                       const EngineOptions&);

}  // namespace inlay::exec
