// A session on the CPU.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<Session> Session::make(const ModelConfig&, Weights, Chain<Cpu>, const Options&);

}  // namespace inlay::exec
