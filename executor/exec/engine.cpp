#include <inlay/exec/engine.hpp>

#include <utility>
#include <variant>

#include <inlay/exec/eager.hpp>

namespace inlay::exec {

Expected<std::unique_ptr<Engine>> make_engine(const ModelConfig& config, Weights weights, Eager run,
                                              const EngineOptions& options) {
  return std::visit(
      [&]<class C>(C&& chain) { return make_engine(config, std::move(weights), std::forward<C>(chain), options); },
      std::move(run).release());
}

}  // namespace inlay::exec
