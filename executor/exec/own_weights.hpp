// What a rank has of a model that is a file.
#pragma once

#include <functional>
#include <memory>

#include <inlay/exec/comm/comm.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::exec {

struct OwnWeights {
  ModelConfig config;
  Weights weights;
};

// Where it cannot load that, the others are told.
Expected<OwnWeights> load_own(std::shared_ptr<const ModelFile> file, const Parallel& parallel, const Comm& comm,
                              RankCut::By by, const std::function<void(index, index)>& progress);

}  // namespace inlay::exec
