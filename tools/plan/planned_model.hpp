// The model that `inlay plan` places and `inlay profile` measures.
#pragma once

#include <string>

#include <inlay/core/parallel.hpp>
#include <inlay/core/status.hpp>
#include <inlay/model/model_config.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::tools {

// The weights of a model: of a file, or of a shape that `inlay bench model --shape` knows, then random w4a16.
struct PlannedModel {
  exec::ModelConfig config;
  exec::Weights weights;
};
// `model`: a file or a shape; empty: the model that ships with Inlay.
Expected<exec::ModelConfig> planned_config(const std::string& model);
Expected<PlannedModel> planned_model(const std::string& model, const Parallel& parallel);

}  // namespace inlay::tools
