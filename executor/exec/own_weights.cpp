#include "executor/exec/own_weights.hpp"

#include <utility>

#include <inlay/exec/comm/lead.hpp>

namespace inlay::exec {

Expected<OwnWeights> load_own(std::shared_ptr<const ModelFile> file, const Parallel& parallel, const Comm& comm,
                              RankCut::By by, const std::function<void(index, index)>& progress) {
  auto cut = RankCut::make(file->config, comm.rank, comm.size, by);
  if (!cut) return failure(std::move(cut.error()));  // as on every rank
  auto weights = load_weights(std::move(file), parallel, progress, *cut);
  if (weights) return OwnWeights{cut->config(), std::move(*weights)};
  give_up(comm, weights.error());
  return failure(std::move(weights.error()));
}

}  // namespace inlay::exec
