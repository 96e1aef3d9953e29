// Shapes of published models, for benchmarks with random weights.
#pragma once

#include <string>
#include <vector>

#include <inlay/model/model_file.hpp>

namespace inlay::tools {

std::vector<std::string> model_shapes();

// "llama3.2-1b" and so on; not_found lists the known ones.
Expected<exec::ModelConfig> model_shape(const std::string& name);

}  // namespace inlay::tools
