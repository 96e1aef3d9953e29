// An engine on an OpenCL device: its own, or the caller's.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, Chain<Cl>, const EngineOptions&);
template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, Chain<Cl&>, const EngineOptions&);

}  // namespace inlay::exec
