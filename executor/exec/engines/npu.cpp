// An engine on the NPU; what it declines runs on the CPU.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, Chain<Npu, Cpu>,
                                                       const EngineOptions&);

}  // namespace inlay::exec
