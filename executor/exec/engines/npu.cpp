// A session on the NPU; what it declines runs on the CPU.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<Session> Session::make(const ModelConfig&, Weights, Chain<Npu, Cpu>, const Options&);

}  // namespace inlay::exec
