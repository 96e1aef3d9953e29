// A session on an OpenCL device: its own, or the caller's.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<Session> Session::make(const ModelConfig&, Weights, Chain<Cl>, const Options&);
template Expected<Session> Session::make(const ModelConfig&, Weights, Chain<Cl&>, const Options&);

}  // namespace inlay::exec
