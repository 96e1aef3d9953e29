// An engine on the reference.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig&, Weights, Chain<Reference>,
                                                       const EngineOptions&);

}  // namespace inlay::exec
