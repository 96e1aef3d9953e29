// Models of published shapes with random weights: what a benchmark needs of a model.
#pragma once

#include <string>
#include <vector>

#include <inlay/exec/weights.hpp>

namespace inlay::tools {

// "llama3.2-1b" and so on; not_found lists the known ones.
Expected<exec::ModelConfig> model_shape(const std::string& name);
std::vector<std::string> model_shapes();

// Linears of one type: f32 f16 bf16 int8 w4a16 (group 32). The embedding table is f16.
Expected<exec::Weights> random_weights(const exec::ModelConfig& config, const std::string& type);

}  // namespace inlay::tools
