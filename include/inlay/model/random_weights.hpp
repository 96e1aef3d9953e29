// Models with random weights, packed for the operators: what benchmarks and tests need of a model.
#pragma once

#include <cstdint>
#include <string>

#include <inlay/model/weights.hpp>

namespace inlay::exec {

// Linears of one type: f32 f16 bf16 int8 w4a16 (group 32). The embedding table is f16. The same numbers in any number
// of threads and on any machine, and for one rank of several (`cut`) as for one that has all.
Expected<Weights> random_weights(const ModelConfig& config, const std::string& type, const Parallel& parallel,
                                 std::uint64_t seed = 1, const RankCut& cut = {});

}  // namespace inlay::exec
