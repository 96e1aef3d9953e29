#include "tools/plan/planned_model.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <inlay/model/load.hpp>
#include <inlay/model/random_weights.hpp>

#include "tools/model_shapes.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

bool is_shape(const std::string& model) {
  const auto names = model_shapes();
  return std::find(names.begin(), names.end(), model) != names.end();
}

std::string file_of(const std::string& model) { return model.empty() ? default_model() : model; }

}  // namespace

Expected<exec::ModelConfig> planned_config(const std::string& model) {
  if (is_shape(model)) return model_shape(model);
  auto file = exec::load_model(file_of(model));
  if (!file) return failure(std::move(file.error()));
  return std::move(file->config);
}

Expected<PlannedModel> planned_model(const std::string& model, const Parallel& parallel) {
  if (is_shape(model)) {
    auto config = model_shape(model);
    auto weights = exec::random_weights(*config, "w4a16", parallel);
    if (!weights) return failure(std::move(weights.error()));
    return PlannedModel{std::move(*config), std::move(*weights)};
  }
  auto file = exec::load_model(file_of(model));
  if (!file) return failure(std::move(file.error()));
  auto shared = std::make_shared<const exec::ModelFile>(std::move(*file));
  auto weights = exec::load_weights(shared, parallel);
  if (!weights) return failure(std::move(weights.error()));
  return PlannedModel{shared->config, std::move(*weights)};
}

}  // namespace inlay::tools
