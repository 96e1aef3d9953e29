// An engine on the CPU and the NPU at once.
#include "executor/exec/engines/side_by_side.hpp"

namespace inlay::exec {

template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, SideBySide<Npu>,
                                                       const EngineOptions&);

}  // namespace inlay::exec
