// A session on the reference.
#include <inlay/exec/engine_on.hpp>

namespace inlay::exec {

template Expected<Session> Session::make(const ModelConfig&, Weights, Chain<Reference>, const Options&);

}  // namespace inlay::exec
